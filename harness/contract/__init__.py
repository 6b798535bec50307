"""What everybody agrees on: the canonical values, the protocols, the errors. Values, no behaviour."""
