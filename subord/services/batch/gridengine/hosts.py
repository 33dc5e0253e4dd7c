"""`qhost -q -xml`: the execution hosts, with their queue instances.

Input is its text; outputs are rows, and hosts as one queue sees them. A host without an instance of that queue has no
slots there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element

from subord.services.batch.faults import AnswerError
from subord.services.batch.gridengine.xml import elements
from subord.services.batch.records import Host, HostState

WORDS: Final = ("qhost", "-q", "-xml")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_ERROR, _SUSPENDED, _DRAINED = frozenset("Eoc"), frozenset("sSCA"), frozenset("dD")


class Instance(NamedTuple):
    """A queue on one host."""

    queue: str
    slots: int
    used: int
    letters: str

    @property
    def is_drained(self) -> bool:
        return bool(_DRAINED & set(self.letters))


class Row(NamedTuple):
    name: str
    cpus: int | None
    load: float | None
    """None: no execd has reported."""
    memory: int | None
    instances: tuple[Instance, ...]

    def host(self, queue: str) -> Host:
        """As `queue` sees it."""
        own = next((each for each in self.instances if each.queue == queue), None)
        letters = "" if own is None else own.letters
        return Host(
            name=self.name,
            slots=0 if own is None else own.slots,
            used=0 if own is None else own.used,
            busy=sum(each.used for each in self.instances),
            state=self._state(letters),
            is_drained=own is not None and own.is_drained,
            word=letters,
            load=self.load,
            cpus=self.cpus,
            memory=self.memory,
        )

    def _state(self, letters: str) -> HostState:
        found = set(letters)
        if found & _ERROR:
            return HostState.ERROR
        if "u" in found or self.load is None:
            return HostState.DOWN
        return HostState.SUSPENDED if found & _SUSPENDED else HostState.UP


def rows_in(text: str) -> list[Row]:
    """Raises AnswerError."""
    return [_row(each) for each in elements(text, "host") if each.get("name") != "global"]


def _row(element: Element) -> Row:
    """Raises AnswerError."""
    name = element.get("name", "")
    values = {each.get("name"): (each.text or "").strip() for each in element.findall("hostvalue")}
    try:
        return Row(
            name,
            cpus=int(values["num_proc"]) if values.get("num_proc", "-") != "-" else None,
            load=float(values["load_avg"]) if values.get("load_avg", "-") != "-" else None,
            memory=bytes_of(values.get("mem_total", "-")),
            instances=tuple(_instances(element)),
        )
    except (ValueError, KeyError) as error:
        raise AnswerError(f"host {name!r}: {error}") from None


def _instances(element: Element) -> Iterator[Instance]:
    """Raises ValueError, KeyError."""
    for queue in element.findall("queue"):
        values = {each.get("name"): (each.text or "").strip() for each in queue.findall("queuevalue")}
        slots, used = int(values["slots"]), int(values["slots_used"])
        yield Instance(queue.get("name", ""), slots, used, values.get("state_string", ""))


def bytes_of(text: str) -> int | None:
    """`23.5G`; None: `-`. Raises ValueError."""
    if text in ("", "-"):
        return None
    unit = _UNITS.get(text[-1].upper())
    return int(float(text[:-1]) * unit) if unit else int(float(text))
