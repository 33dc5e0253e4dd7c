"""Appends a line to a file in the directory of the agent; then it may wait for a file `go`, or fail."""

from __future__ import annotations

import json
from pathlib import Path

import trio

from subord.services.acting import Context


async def act(payload: bytes, context: Context) -> bytes:
    wanted = json.loads(payload)
    with open(wanted["file"], "a") as file:  # noqa: ASYNC230 - a test
        file.write(f"{context.principal} as {context.user}\n")
    while wanted.get("waits") and not Path("go").exists():  # noqa: ASYNC110, ASYNC240 - a test
        await trio.sleep(0.02)
    if wanted.get("fails"):
        raise RuntimeError("as the order says")
    return b"touched"
