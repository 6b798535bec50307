"""`harness serve`: the reference server for clients that are not ours, and what is found of them."""
