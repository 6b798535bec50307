"""Adapters in any language: a command that answers JSON-RPC 2.0 on its standard input and output, a line a message."""
