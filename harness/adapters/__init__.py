"""The code under test: one adapter per API, on the official SDKs. Each module exports `ADAPTER`."""
