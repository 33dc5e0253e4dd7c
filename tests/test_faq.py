"""docs/faq.md: each question has an answer, a command that the program accepts, and an existing proof."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from loops import over

from subord import cli

REPOSITORY = Path(__file__).parents[1]
TEXT = (REPOSITORY / "docs" / "faq.md").read_text(encoding="utf-8")
QUESTIONS = dict(re.findall(r"^## (.*?)$\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
SENTENCES_MAX = 8


def line(answer: str, name: str) -> list[str]:
    """The texts between backticks in the line that begins with this word."""
    (found,) = re.findall(rf"^- \*\*{name}\*\*: (.*)$", answer, re.MULTILINE)
    return re.findall(r"`([^`]+)`", found)


def test_there_are_twenty() -> None:
    assert len(QUESTIONS) == 20
    assert all(question.endswith("?") for question in QUESTIONS)


@over("question", QUESTIONS)
def test_an_answer_is_short(question: str) -> None:
    sentences = [each for each in QUESTIONS[question].splitlines() if each and not each.startswith("- **")]
    assert 2 <= len(sentences) <= SENTENCES_MAX


@over("question", QUESTIONS)
def test_a_proof_exists(question: str) -> None:
    proofs = line(QUESTIONS[question], "Proof")
    assert proofs
    for proof in proofs:
        file, _, test = proof.partition("::")
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        assert file.startswith(("tests/", "netns-lab/scenarios/")), proof
        assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE), proof


def test_every_scenario_that_ships_proves_an_answer() -> None:
    proofs = {proof for answer in QUESTIONS.values() for proof in line(answer, "Proof")}
    shipped = {str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("netns-lab/scenarios/*.toml")}
    assert len(shipped) >= 16
    assert shipped <= proofs


@pytest.mark.slow
@over("question", QUESTIONS)
def test_a_command_can_be_typed(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(REPOSITORY / "netns-lab"), *sys.path])
    from netlab.cli import arguments

    commands = [each for each in line(QUESTIONS[question], "See it") if " " in each]
    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        if program == "netns-lab/lab":
            known = arguments.parser(words).parse_args(words)
            for file in getattr(known, "files", []):
                assert (REPOSITORY / file).is_file()
            if "--" in words:
                program, *words = words[words.index("--") + 1 :]
        if program == "subord":
            cli.parser().parse_args(words)
        assert program in ("netns-lab/lab", "subord", "./dev"), command
