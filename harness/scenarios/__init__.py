"""Scenarios: YAML files that describe a conversation: user messages, tools with results, and the model's responses."""
