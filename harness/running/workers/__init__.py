"""Adapters that are not ours, played in processes of their own: one that ends, hangs or prints fails its cell alone."""
