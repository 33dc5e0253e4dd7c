"""Stories of jobs that cross, told in `stories/*.txt`: commands, `----`, and exactly what both sides do (story.py).

`REWRITE=1 pytest tests/transfer/test_transfer_stories.py` rewrites the answers; read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from loops import over

from tests.transfer.story import Story

FILES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


def test_there_are_stories() -> None:
    assert len(FILES) >= 10


@over("path", FILES)
def test_a_story(path: Path) -> None:
    told = path.read_text(encoding="utf-8")
    played = "\n".join(replayed(told)).rstrip("\n") + "\n"
    if os.environ.get("REWRITE"):
        path.write_text(played, encoding="utf-8")
    assert played == told


def replayed(told: str) -> Iterator[str]:
    story, answers = Story(), list[str]()
    is_answer = False
    for line in [*told.splitlines(), ""]:
        if not line.strip():
            if answers or is_answer:
                yield from answers or ["nothing"]
            yield ""
            answers, is_answer = [], False
        elif line.startswith("----"):
            is_answer = True
            yield line
        elif not is_answer:
            yield line
            if not line.startswith("#"):
                answers += story.play(line)
