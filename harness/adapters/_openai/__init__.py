"""What the adapters of OpenAI's two APIs share, since the provider says both in the same way: the SDK, ids, strict
schemas, server-sent events, errors. No adapter, and for those two alone."""
