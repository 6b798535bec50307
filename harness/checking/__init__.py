"""`harness check`: what is played to judge an adapter within a minute, and what is said of it beside its cells."""
