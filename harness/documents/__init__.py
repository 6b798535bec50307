"""Reading of YAML files with positions, strict fields, patterns, and validation by JSON Schema."""
