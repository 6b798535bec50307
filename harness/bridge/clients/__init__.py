"""Third-party code without a wrapper: recognise what it is, call it, and read what it returns.

The modules, by subject:

- Clients: `shape_recognition`, `shapes`, `candidates`, `client_state`, `shaped_client`, `client_failures`.
- Third-party code itself: `annotations`, `sources`, `methods`, `method_code`, `constructors`, `provider_arguments`,
  `invocation`, and the `names` that clients use.
- Requests: `forms`, `request_arguments`, `message_classes`, `message_dictionaries`, `own_keys`, `tool_choices`.
- Answers: `answers`, `complete_answers`, `answer_fields`, `call_fields`, `native_bodies`, `own_messages`,
  `stream_pieces`, `values`.
- Tools: `tool_arguments`, `tool_values`, `tool_objects`, `tool_functions`, `tool_parts`, `tool_declarations`,
  `tool_registration`.
- Tool loops: `agent_classes`, `agent_functions`, `sessions`, `loop_methods`, `loop_settings`, `loop_clients`, `turns`,
  `loop_answers`.
"""
