"""Record-and-replay conformance harness for LLM tool calling."""
