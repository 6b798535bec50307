"""The reference server, which sends a scenario's script in the wire format of an API."""
