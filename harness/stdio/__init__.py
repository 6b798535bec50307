"""Adapters in any language: a command that speaks JSON-RPC 2.0 on standard input and output, one message per line."""
