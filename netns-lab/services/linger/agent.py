"""Appends a line to a file in the directory of the agent, and another one when it is ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import trio

from subord.services.acting import Context

LEASED: Final = True


async def act(payload: bytes, context: Context) -> bytes:  # noqa: ARG001 - part of the contract
    wanted = json.loads(payload)
    _append(wanted["file"], "began\n")
    try:
        while not Path("go").exists():  # noqa: ASYNC110, ASYNC240 - a test
            await trio.sleep(0.02)
    finally:
        _append(wanted["file"], "ended\n")
    return b"lingered"


def _append(path: str, line: str) -> None:
    with open(path, "a") as file:
        file.write(line)
