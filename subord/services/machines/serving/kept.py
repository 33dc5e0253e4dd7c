"""What the agent of a server keeps over its death: the fence and the orders that it obeys, and whether it is drained.

Inputs and outputs are values of guarding.py; the file is replaced whole, and is on the disk when a method returns.
An order is forgotten long after it has expired. Invariant: while the file is damaged, or cannot be written to, no
order is obeyed: one could be obeyed twice, or be of a process that was replaced. All methods block.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec

from subord.core.decoding import UNREADABLE
from subord.runtime.state.whole import write_whole
from subord.services.machines.guarding import Heard
from subord.services.machines.orders import Fence, Order

FILE_NAME: Final = "server.json"
FILE_BYTES_MAX: Final = 4 << 20
OBEYED_MAX: Final = 8_192
"""Of which FILE_BYTES_MAX has room for the longest names. A server has some hundred machines."""
KEEP_S: Final = 3_600.0
"""After an order has expired, in case the clock was set back."""


class KeptError(Exception):
    """One sentence without a full stop: what is wrong, what was left unchanged, and what to do."""


class _Obeyed(msgspec.Struct, frozen=True, array_like=True):
    version: int
    life: int
    number: int
    expires: float


class _Form(msgspec.Struct, frozen=True):
    version: int = 0
    life: int = 0
    is_drained: bool = False
    obeyed: Annotated[dict[str, _Obeyed], msgspec.Meta(max_length=65_536)] = {}


class Kept:
    """`directory`: of the agent."""

    def __init__(self, directory: str, folder: str) -> None:
        self._path = Path(directory) / folder / FILE_NAME
        self._form: _Form | None = None

    def heard(self) -> Heard:
        """Raises KeptError."""
        form = self._read()
        return Heard(
            Fence(form.version, form.life),
            {name: (Fence(each.version, each.life), each.number) for name, each in form.obeyed.items()},
        )

    def is_drained(self) -> bool:
        """Raises KeptError."""
        return self._read().is_drained

    def hear(self, fence: Fence) -> None:
        """A question has this fence. Raises KeptError."""
        form = self._read()
        if fence > Fence(form.version, form.life):
            self._write(msgspec.structs.replace(form, version=fence.version, life=fence.life))

    def obey(self, orders: list[Order], now: float) -> None:
        """These orders are obeyed from now on. Raises KeptError."""
        form = self._read()
        fence = max([Fence(form.version, form.life), *(each.fence for each in orders)])
        obeyed = {name: each for name, each in form.obeyed.items() if now <= each.expires + KEEP_S}
        for each in orders:
            obeyed[each.action.machine] = _Obeyed(*each.fence, each.number, each.expires)
        if len(obeyed) > OBEYED_MAX:
            raise KeptError(
                f"this server has obeyed orders for {len(obeyed)} machines within hours, and {OBEYED_MAX} are the "
                "most; nothing was done: look at what gives orders with machines.key, and revoke a key that is not "
                "yours"
            )
        self._write(msgspec.structs.replace(form, version=fence.version, life=fence.life, obeyed=obeyed))

    def drain(self, is_drained: bool) -> bool:
        """Whether it was not so before. Raises KeptError."""
        form = self._read()
        if form.is_drained == is_drained:
            return False
        self._write(msgspec.structs.replace(form, is_drained=is_drained))
        return True

    def _read(self) -> _Form:
        if self._form is None:
            try:
                with self._path.open("rb") as file:
                    self._form = msgspec.json.decode(file.read(FILE_BYTES_MAX), type=_Form)
            except FileNotFoundError:
                self._form = _Form()
            except OSError as error:
                raise KeptError(
                    f"{self._path} cannot be read: {error.strerror or error}; nothing was done: correct "
                    "agent.state_directory"
                ) from None
            except UNREADABLE:
                raise KeptError(
                    f"{self._path} is damaged, so it is not known which orders this server has obeyed; nothing was "
                    "done: remove it a minute after the queue's node has given its last order"
                ) from None
        return self._form

    def _write(self, form: _Form) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(self._path, msgspec.json.encode(form))
        except OSError as error:
            raise KeptError(
                f"{self._path} cannot be written to: {error.strerror or error}; nothing was done: make room there, "
                "or correct agent.state_directory"
            ) from None
        self._form = form
