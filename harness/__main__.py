"""`python -m harness` is the command `harness`."""

import sys

from harness.cli.main import main

if __name__ == "__main__":  # not when a child process imports this module
    sys.exit(main())
