"""Equivalence: requests, results and schemas that a provider and a model cannot tell apart."""
