"""The rules, one module per subject. Each module exports `RULES`; `harness.catalog` finds them."""
