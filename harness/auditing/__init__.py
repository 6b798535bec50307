"""Recordings of anybody's: what their requests break, and how an adapter answers the same history."""
