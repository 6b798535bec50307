"""`python -m harness.stdio module:ATTRIBUTE` serves a Python adapter on standard input and output."""

from harness.stdio.serving import main

main()
