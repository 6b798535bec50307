"""Audits of recordings: the limits that their requests exceed, and adapters driven with their conversations."""
