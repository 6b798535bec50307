"""Drives recorded tool conversations through the adapters again, and holds what they send against what was recorded."""
