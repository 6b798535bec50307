"""The code under test: one adapter per API, built on the official SDKs. Each module exports `ADAPTER`."""
