"""Runs adapters written in any language. An adapter is a command that exchanges JSON-RPC 2.0 messages on standard input
and output, one per line.
"""
