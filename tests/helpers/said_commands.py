"""Commands of a batch system that say what a test has written, without running anything."""

from __future__ import annotations

from collections.abc import Callable

from subord.services.batch.records import Unavailable
from subord.services.batch.running import OUTPUT_BYTES_MAX, Commands, Ran

Answer = str | Ran | Unavailable | Callable[[], str | Ran | Unavailable]


class SaidCommands(Commands):
    """`answers`: by the first words of a command; of several that fit the longest counts. `ran` has all commands."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        super().__init__({})
        self.answers = answers
        self.ran: list[str] = []
        self.given: list[bytes] = []

    async def run(
        self, *words: str, given: bytes = b"", bytes_max: int = OUTPUT_BYTES_MAX, keeps_last: bool = False
    ) -> Ran | Unavailable:
        line = " ".join(words)
        self.ran.append(line)
        self.given.append(given)
        fitting = [each for each in self.answers if line.startswith(each)]
        assert fitting, f"nothing is said for {line}"
        answer = self.answers[max(fitting, key=len)]
        said = answer() if callable(answer) else answer
        if isinstance(said, str):
            kept = said.encode()[-bytes_max:] if keeps_last else said.encode()
            return Ran(0, kept, "", is_cut=len(kept) < len(said.encode()))
        return said
