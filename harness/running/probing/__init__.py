"""Asks providers whether facts still hold: with the smallest request that a fact is about, and with its twin."""
