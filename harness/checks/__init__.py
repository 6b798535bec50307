"""Checks of adapters, of servers and of gateways: the command `harness check`."""
