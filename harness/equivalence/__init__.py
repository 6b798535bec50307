"""Equivalence: decides whether requests, results or schemas mean the same to a provider and a model."""
