"""Scenarios: YAML files with a conversation: user messages, tools and their results, and the model's answers."""
