"""How a copy that was forked ends: with an exit code, and without what its starter has on its stack."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn


def leave_with(run: Callable[[], int | None]) -> NoReturn:
    """In a copy: end with the exit code of `run`. Nothing of the stack of its starter may run in it."""
    code: int | None = 1
    try:
        code = run()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code or 0)
