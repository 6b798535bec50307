"""The kit for applications: threads, handlers, clients, embeddings and a workspace for tools."""
