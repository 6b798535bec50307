"""`python -m harness` is the command `harness`."""

import sys

from harness.cli.main import main

sys.exit(main())
