"""A machine whose commands do what a test says, for the work on an added node and on the queue's node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from subord.services.batch.running import Ran
from subord.services.elastic.preparing.machine import Machine

Answer = tuple[int, str] | Callable[..., tuple[int, str]]
"""The code that a command ends with, and what it prints."""


class FakeCommands:
    """`answers`: by the first words of a command; the longest counts. Commands without one end with 0."""

    def __init__(self, answers: dict[str, Answer] | None = None, missing: Sequence[str] = ()) -> None:
        self.answers = answers or {}
        self.missing = missing
        self.ran: list[str] = []
        self.environments: list[Sequence[str] | None] = []

    async def run(self, *words: str, limit_s: float = 1.0, environment: Sequence[str] | None = None) -> Ran:
        assert limit_s > 0
        await trio.lowlevel.checkpoint()
        line = " ".join(words)
        self.ran.append(line)
        self.environments.append(environment)
        fitting = [key for key in self.answers if f"{line} ".startswith(f"{key} ")]
        answer = self.answers[max(fitting, key=len)] if fitting else (0, "")
        code, text = answer(*words) if callable(answer) else answer
        return Ran(code, b"" if code else text.encode(), text if code else "")

    def find(self, program: str) -> str | None:
        return None if program in self.missing else program if "/" in program else f"/nowhere/{program}"

    def machine(self, proc: Path | str = "/nowhere", lacking: str = "") -> Machine:
        return Machine(run=self.run, find=self.find, lacks=lambda _needs: lacking, proc=str(proc))
