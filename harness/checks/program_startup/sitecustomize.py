# ruff: noqa: INP001 - Python imports it by its name
"""Start-up code of the Python programs that `harness try` runs with redirected requests. Python imports it by its name,
because the folder is in `PYTHONPATH`. Without harness in the program's environment, nothing is redirected.
"""

import contextlib
import os

with contextlib.suppress(ImportError):
    from harness.checks.program_redirection import redirect_until_exit

    redirect_until_exit(os.environ["HARNESS_BASE_URL"])
