"""The observer of a lab: it reads libvirt of each server by itself, and writes down which machine is on when.

Inputs are events of libvirt, which come in the order in which they happened at a server; output is a journal, and a
call of those that have asked for it. What a machine takes is read from its definition.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

from netlab.machines.journal import Change
from netlab.machines.libvirtds import Libvirtd
from subord.services.machines.power import binding

UNITS: Final = {"b": 1 / 1024**2, "bytes": 1 / 1024**2, "KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
DEFINED, STARTED, STOPPED, SHUTDOWN = 0, 2, 5, 6
"""Of virDomainEventType."""

Hear = Callable[[Change], None]


class _Told(NamedTuple):
    at: float
    server: str
    machine: str
    kind: int
    domain: Any


class Watch:
    """As long as the `with` block. `hear`: called in a thread of this, for each change."""

    def __init__(self, servers: Iterable[Libvirtd], hear: Hear = lambda _change: None) -> None:
        self.changes: list[Change] = []
        self._servers = list(servers)
        self._hear = hear
        self._told = queue.SimpleQueue[_Told | None]()
        self._needs: dict[tuple[str, str], tuple[int, int]] = {}
        self._on: set[tuple[str, str]] = set()
        self._callbacks: list[tuple[Any, int]] = []
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        libvirt = binding.load()
        for server in self._servers:
            connection = server.connection

            def happened(
                _connection: Any, domain: Any, kind: int, _detail: int, _opaque: object, name: str = server.name
            ) -> None:
                self._told.put(_Told(time.time(), name, domain.name(), kind, domain))

            number = connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, happened, None)
            self._callbacks.append((connection, number))
            for domain in connection.listAllDomains():
                self._told.put(_Told(time.time(), server.name, domain.name(), DEFINED, domain))
                if domain.isActive():
                    self._told.put(_Told(time.time(), server.name, domain.name(), STARTED, domain))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for connection, number in self._callbacks:
            with suppress(Exception):
                connection.domainEventDeregisterAny(number)
        self._told.put(None)
        self._thread.join()

    def settle(self) -> None:
        """Until all events that have come are in the journal."""
        while not self._told.empty():
            time.sleep(0.02)

    def on(self) -> dict[str, set[str]]:
        """Server -> machines that are on, by the journal."""
        found: dict[str, set[str]] = {each.name: set() for each in self._servers}
        for server, machine in list(self._on):
            found[server].add(machine)
        return found

    def _work(self) -> None:
        while (told := self._told.get()) is not None:
            key = told.server, told.machine
            if told.kind == DEFINED:
                self._read(key, told.domain)
            elif told.kind == STARTED and key not in self._on:
                if key not in self._needs:
                    self._read(key, told.domain)
                self._on.add(key)
                self._write(told, is_on=True)
            elif told.kind in (STOPPED, SHUTDOWN) and key in self._on:
                self._on.discard(key)
                self._write(told, is_on=False)

    def _read(self, key: tuple[str, str], domain: Any) -> None:
        try:
            definition = ElementTree.fromstring(domain.XMLDesc())  # noqa: S314 - libvirt wrote it
        except binding.errors():
            return  # it is gone again
        memory = definition.find("memory")
        mib = 0 if memory is None else float(memory.text or 0) * UNITS[memory.get("unit", "KiB")]
        self._needs[key] = int(definition.findtext("vcpu", "1")), round(mib)

    def _write(self, told: _Told, *, is_on: bool) -> None:
        cores, memory = self._needs.get((told.server, told.machine), (0, 0))
        change = Change(told.at, told.server, told.machine, is_on, cores, memory)
        self.changes.append(change)
        self._hear(change)
