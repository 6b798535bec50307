"""`python -m harness` is the command `harness`."""

import sys

from harness.cli.main import main

if __name__ == "__main__":  # and not in a process that this one has begun
    sys.exit(main())
