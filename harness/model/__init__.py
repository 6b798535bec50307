"""Canonical values, protocols and errors that all packages share. They have no behaviour of their own."""
