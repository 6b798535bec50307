"""Meaning: what a provider and a model cannot tell apart."""
