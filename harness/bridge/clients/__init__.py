"""Third-party code without a wrapper: recognise what it is, call it, and read what it returns.

The modules, by subject:

- Clients: `shape_recognition`, `shapes`, `client_state`, `shaped_client`.
- Third-party code itself: `annotations`, `sources`, `signature_reading`, `methods`, `decorated_functions`,
  `constructors`, `example_objects`, `client_makers`, `objects`, `option_dictionaries`, `checked_options`,
  `provider_arguments`, `invocation`, and the `names` that clients use.
- Requests: `forms`, `request_arguments`, `message_classes`, `message_dictionaries`, `prompt_records`, `format_records`,
  `own_keys`, `tool_choices`, `result_helpers`.
- Answers: `answers`, `complete_answers`, `stream_pieces`, `stream_snapshots`, `stream_objects`, `filled_objects`,
  `answer_fields`, `content_blocks`, `native_bodies`, `truncation`, `stop_reason_uses`, `returning_code`,
  `values`.
- Tools: `tool_arguments`, `tool_objects`, `inherited_tools`, `field_tools`, `tool_functions`, `tool_declarations`,
  `tool_registration`, and those with names of their own: `declared_parts`, `tool_classes`, `own_tools`.
- Tool loops: `agents`, `sessions`, `loop_methods`, `loop_settings`, `sent_tools`, `result_code`, `submitted_results`,
  `requested_calls`, `caller_messages`, `turns`, `session_openers`, `user_answers`.
"""
