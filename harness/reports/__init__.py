"""The reports, one module per format. Each public module exports `REPORT`; `harness.catalog` finds them."""
