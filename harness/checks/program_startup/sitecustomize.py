# ruff: noqa: INP001 - Python imports it by its name
"""Start-up code of the Python programs that `harness try` runs. It redirects requests to a fixed base URL.

Python imports it by its name, because the folder is in `PYTHONPATH`. Python imports only the first module of this name,
so this one runs the environment's own, if there is one. Without harness in the program's environment, it does nothing.
"""

import contextlib
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

sys.path[:] = [each for each in sys.path if each != os.path.dirname(__file__)]  # noqa: PTH120 - pathlib takes time
_own = PathFinder.find_spec("sitecustomize")
if _own is not None and _own.loader is not None:
    sys.modules["sitecustomize"] = module_from_spec(_own)
    _own.loader.exec_module(sys.modules["sitecustomize"])

with contextlib.suppress(ImportError, KeyError):  # a child process may get no variables
    from harness.checks.program_redirection import redirect_until_exit

    redirect_until_exit(os.environ["HARNESS_BASE_URL"])
