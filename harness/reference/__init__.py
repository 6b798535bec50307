"""The reference server: a loopback HTTP server that plays a scenario's script in an API's own wire format."""
