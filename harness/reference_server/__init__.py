"""The reference server, which plays a scenario's script in the wire format of an API."""
