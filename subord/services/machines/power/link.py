"""The connection to one libvirt: opened when it is needed, and again after it broke. All of it runs in threads.

Invariant: there is one connection at a time, and its events come in the order of libvirt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from subord.services.machines.power import binding
from subord.services.machines.power.events import KINDS
from subord.services.machines.power.faults import Trouble, unopened
from subord.services.machines.power.records import Event, EventKind, Fault, Unavailable

KEEPALIVE_S: Final = 5
KEEPALIVES: Final = 3
"""A libvirtd that is silent for so many of them counts as lost."""
OPEN_S: Final = 30.0
"""So long a thread waits for another one that opens."""


class UnopenedError(Exception):
    def __init__(self, reason: Unavailable) -> None:
        super().__init__(reason)
        self.reason = reason


class Link:
    def __init__(self, uri: str, heard: Callable[[Event], None]) -> None:
        """`heard` is called in threads."""
        self._uri = uri
        self._heard = heard
        self._lock = threading.Lock()
        self._connection: Any = None
        self._callback: int | None = None
        self._number = 0
        """Of the connection."""
        self._last_lost = 0
        self._losing = threading.Lock()

    def connection(self) -> Any:
        """Raises UnopenedError."""
        if not self._lock.acquire(timeout=OPEN_S):
            raise UnopenedError(
                Unavailable(Fault.SLOW, f"libvirt at {self._uri} does not answer to a new connection")
            )
        try:
            if self._connection is None or not self.is_alive():
                self._drop()
                self._lose(self._number)
                self._connection = self._opened()
            return self._connection
        finally:
            self._lock.release()

    def is_alive(self) -> bool:
        try:
            return self._connection is not None and bool(self._connection.isAlive())
        except Exception:
            return False

    def close(self) -> None:
        """At the end, when no call is under way."""
        with self._lock:
            connection = self._connection
            self._drop()
            if connection is not None:
                with suppress(Exception):
                    connection.close()

    def _opened(self) -> Any:
        libvirt = binding.load()
        if isinstance(libvirt, Unavailable):
            raise UnopenedError(libvirt)
        parts = urlsplit(self._uri)
        if parts.scheme == "test" and parts.path != "/default" and not Path(parts.path).is_file():
            # Else libxml2 itself would print to stderr.
            raise UnopenedError(unopened(self._uri, Trouble(0, f"there is no file {parts.path}")))
        try:
            connection = libvirt.open(self._uri)
        except libvirt.libvirtError as error:
            raise UnopenedError(unopened(self._uri, trouble_of(error))) from None
        self._listen(libvirt, connection)
        return connection

    def _listen(self, libvirt: Any, connection: Any) -> None:
        """A driver without events, keepalives or a connection that breaks is used without them."""
        self._number += 1
        number = self._number

        def happened(_connection: Any, domain: Any, kind: int, _detail: int, _opaque: object) -> None:
            if kind in KINDS:
                self._heard(Event(KINDS[kind], domain.name()))

        def closed(_connection: Any, _reason: int, _opaque: object) -> None:
            self._lose(number)

        with suppress(libvirt.libvirtError):
            kind = libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE
            self._callback = connection.domainEventRegisterAny(None, kind, happened, None)
        with suppress(libvirt.libvirtError):
            connection.registerCloseCallback(closed, None)
        with suppress(libvirt.libvirtError):
            connection.setKeepAlive(KEEPALIVE_S, KEEPALIVES)
        self._heard(Event(EventKind.CONNECTED))

    def _lose(self, number: int) -> None:
        """Libvirt's thread may tell it, or a call that found it first; it is said once."""
        with self._losing:
            if number <= self._last_lost:
                return
            self._last_lost = number
        self._heard(Event(EventKind.LOST))

    def _drop(self) -> None:
        """A connection that is lost is not closed, as other threads may still have it, but given up: Python closes it
        when no thread has it."""
        connection, self._connection = self._connection, None
        callback, self._callback = self._callback, None
        if connection is None:
            return
        with suppress(Exception):
            connection.unregisterCloseCallback()
        with suppress(Exception):
            if callback is not None:
                connection.domainEventDeregisterAny(callback)
        with suppress(Exception):
            connection.domainEventCallbackID.pop(callback, None)  # a circle, which the binding leaves after an error


def trouble_of(error: Any) -> Trouble:
    """`error`: a libvirtError; one that Python's binding itself raises has no code."""
    return Trouble(error.get_error_code() or 0, error.get_error_message() or str(error), error.get_int1() or 0)
