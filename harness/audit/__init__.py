"""Audits of recordings: limits that recorded requests exceed, and adapters driven with recorded conversations."""
