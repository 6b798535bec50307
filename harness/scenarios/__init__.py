"""Scenarios: YAML files that say what is asked, which tools exist, what the model calls and what the tools answer."""
