"""Cells of what owns its tool loop: each is one conversation of a library or a program with the reference server."""
