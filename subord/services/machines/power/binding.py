"""Python's binding of libvirt: imported late, its printing silenced, and its event loop in a thread.

The event loop has to be there before the first connection, which otherwise has neither events nor keepalives. There
is one of each process, for all connections.
"""

from __future__ import annotations

import threading
import time
from importlib import import_module
from typing import Any

from subord.services.machines.power.records import Fault, Unavailable

_lock = threading.Lock()
_loaded: Any = None


def load() -> Any:
    """The module `libvirt`, or Unavailable."""
    global _loaded  # noqa: PLW0603 - libvirt's event loop is one of each process, too
    with _lock:
        if _loaded is None:
            try:
                libvirt = import_module("libvirt")
            except ImportError as error:
                return missing(error)
            _prepare(libvirt)
            _loaded = libvirt
    return _loaded


def errors() -> tuple[type[Exception], ...]:
    """What libvirt raises: none where there is no binding."""
    return () if _loaded is None else (_loaded.libvirtError,)


def missing(error: ImportError) -> Unavailable:
    return Unavailable(
        Fault.MISSING,
        f"this Python has no libvirt ({error}); no machine was changed: `pip install 'subord[machines]'`, which "
        "compiles with libvirt-dev and pkg-config, or on Debian `apt-get install python3-libvirt`",
    )


def _prepare(libvirt: Any) -> None:
    libvirt.registerErrorHandler(_ignore, None)
    libvirt.virEventRegisterDefaultImpl()
    threading.Thread(target=_turn, args=(libvirt,), name="libvirt-events", daemon=True).start()


def _ignore(context: object, error: object) -> None:
    """Libvirt would print each error to stderr, and raises it, too."""


def _turn(libvirt: Any) -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError:
            time.sleep(1)
