"""Loads modules that most daemons need late or never, when they are first needed.

In: the name of a module. Out: whether it can be imported now without reading a file. The import runs in a thread: the
disk may no longer answer, and the event loop must not wait for it. It can fail, too: another release may have taken
the place of the running one, or no file descriptor may be left. That costs one connection and not the daemon.
"""

from __future__ import annotations

import importlib
import logging
import sys

import trio

logger = logging.getLogger("subord")


async def load(name: str) -> bool:
    """Import the module unless it is there; False: it cannot be imported, which was logged. If it is there, other
    tasks have no turn: a request asks for a dozen modules, and on a busy machine each turn takes long."""
    if _is_loaded(name):
        return True
    try:
        await trio.to_thread.run_sync(importlib.import_module, name, abandon_on_cancel=True)
    except (ImportError, OSError) as error:
        fields = {"module": name, "reason": str(error)}
        logger.error("%(module)s cannot be loaded: %(reason)s; after an upgrade restart the daemon", fields)
        return False
    return True


def _is_loaded(name: str) -> bool:
    """Not while another thread is importing it: then `import` would wait for that thread."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)
