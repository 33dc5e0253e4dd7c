"""Transcripts: commands to one node, `----`, and exactly what it does (after raft's datadriven tests).

`REWRITE=1 pytest tests/test_transcripts.py` rewrites the answers; read the difference.

    node 5 fanout 2 guests 1                a new node; network 10.0.0.0/24 unless given
    start | leave | know 2 3 | closed 2 | unreachable 2
    at 0.5                                  time passes; timers fire when they are due
    until ask                               time passes, timer by timer, until an answer contains this word
    sleep 60                                time passes without timers, as for a stopped and continued process
    pause 60                                the same, but waiting messages are read before the clock
    from 2 accept path=1,2 alternates=1     a message; an exchange or number not given is the last one sent to 2
    roster                                  its rows: 5<2 is 5 at home below 2, 5<4+ a guest of 4

Nothing is random: timers have no jitter, numbers begin with 2, and every incarnation is 1000 unless given. A comment
`# Story: ...` names the story of docs/protocol/transcripts.md that follows.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, get_args

import msgspec
from loops import over

from subord.core import events
from subord.core.address.network import Network
from subord.core.messages import Ask, Change, Guidance, Message, No, Why, Wish
from subord.core.node import Node
from subord.core.settings import Settings

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
DIGESTS = ("digest", "guidance_digest")  # not readable
PAGE = Path(__file__).parents[1] / "docs" / "protocol" / "transcripts.md"
KINDS = {kind.__name__.lower(): kind for kind in get_args(Message)}
CHOICES = {"wish": Wish, "no": No, "why": Why}
LISTS = ("path", "alternates", "siblings", "hints", "others", "gone", "spoken")
BOOLEANS = ("adrift", "room")
BLANK = {"wish": Wish.HOME, "why": Why.LEFT, "version": 1, "next_ms": 300, "text": "", "adrift": False, "room": True}
SAME = {"incarnation": 1000, "leader_incarnation": 1000}
TIMERS_MAX = 300
POSITION_MAX = 20  # higher positions have no node in these stories: probes to them are left out
NOISE = (events.RoundTrip, events.RosterChanged, events.FirstContact, events.Publish)
LOCAL = {"start": events.Start, "unreachable": events.Unreachable, "closed": events.EdgeClosed}


class Even(Random):
    """No randomness: the middle of every range, the lowest number, the first of many."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def randrange(self, start: int, *_: Any) -> int:  # type: ignore[override]
        return start

    def sample(self, population: Sequence[Any], k: int, **_: Any) -> list[Any]:
        return list(population[:k])


class Stage:
    """One node, and the last numbers sent to each peer."""

    def __init__(self, position: str, *words: str) -> None:
        given = dict(zip(words[::2], words[1::2], strict=True))
        fanout, network = int(given.get("fanout", 2)), Network.parse(given.get("network", "10.0.0.0/24"))
        settings = Settings(network=network, fanout=fanout, guest_slots=int(given.get("guests", fanout)))
        self.now, self.node = 0.0, Node(settings, int(position), 1000, Even(), 0.0)
        self.said: dict[tuple[int, str], int] = {}

    def run(self, verb: str, *words: str) -> Iterator[str]:
        if verb == "at":
            while self.node.deadline <= float(words[0]):
                yield from self.fire()
        if verb == "until":
            yield from self.until(words[0])
        if verb in ("at", "sleep", "pause"):
            self.now = float(words[0])
        if verb == "roster":
            yield f"{self.now:.3f} {self.roster()}"
        elif verb == "from":
            source, fields = int(words[0]), dict(word.split("=") for word in words[2:])
            yield from self.feed(events.Received(source, f"10.0.0.{source}", self.message(source, words[1], fields)))
        elif verb == "know":
            yield from self.feed(events.Known(tuple(map(int, words))))
        elif verb not in ("at", "until", "pause"):
            event = {"leave": events.Leave(1.0), "sleep": events.Wakeup()}.get(verb)
            yield from self.feed(event or LOCAL[verb](*map(int, words)))

    def fire(self) -> Iterator[str]:
        self.now = self.node.deadline
        yield from self.feed(events.Wakeup())

    def until(self, word: str) -> Iterator[str]:
        for _ in range(TIMERS_MAX):
            lines = list(self.fire())
            yield from lines
            if any(word in line.split() for line in lines):
                return
        raise AssertionError(f"{TIMERS_MAX} timers without {word!r}")

    def feed(self, event: events.Event) -> Iterator[str]:
        for action in self.node.handle(event, self.now):
            if isinstance(action, events.Send):
                for name in {"exchange", "number"} & set(action.message.__struct_fields__):
                    self.said[action.target, name] = getattr(action.message, name)
                if not isinstance(action.message, Ask) or action.target <= POSITION_MAX:
                    yield f"{self.now:.3f} to {action.target}: {shown(action.message)}"
            elif not isinstance(action, NOISE):
                yield f"{self.now:.3f} {shown(action)}"

    def roster(self) -> str:
        rows = (claim.change for _, (_, claim) in sorted(self.node.roster.rows.items()))
        return " ".join(["roster", *(row(change) for change in rows)])

    def message(self, source: int, name: str, given: dict[str, str]) -> Message:
        last = {key: number for (target, key), number in self.said.items() if target == source}
        usual = {
            **SAME,
            **BLANK,
            "key": b"",
            "proof": b"",
            **dict.fromkeys(LISTS, ()),
            "terms": self.node.context.terms,
            **last,
        }
        usual |= {key: read(key, text) for key, text in given.items()}
        usual["guidance"] = Guidance(*(usual[key] for key in Guidance.__struct_fields__))
        if name == "echo" and not set(given) & set(Guidance.__struct_fields__):
            usual["guidance"] = None  # a leader does not repeat guidance
        kind = KINDS[name]
        assert set(given) <= {*kind.__struct_fields__, *Guidance.__struct_fields__}, given
        return kind(**{key: usual.get(key, () if key == "changes" else 0) for key in kind.__struct_fields__})


def read(key: str, text: str) -> Any:
    if key in CHOICES:
        return CHOICES[key][text.upper()]
    if key == "changes":
        return tuple(change(word) for word in text.split(","))
    if key in LISTS:
        return tuple(map(int, text.split(",")))
    return bool(int(text)) if key in BOOLEANS else int(text)


def change(word: str) -> Change:
    """From `position<leader`, with + for a guest, then @ and its number of moves."""
    edge, _, moves = word.partition("@")
    position, _, leader = edge.rstrip("+").partition("<")
    return Change(int(position), int(leader), 1 + edge.endswith("+"), 1000, int(moves or 0), 0)


def row(change: Change) -> str:
    return f"{change.position}<{change.leader}{'+' * (change.place == 2)}{' missing' * change.missing}"


def shown(value: msgspec.Struct) -> str:
    """As `name field=value ...`, without empty and constant values and digests."""
    words, kind = [], type(value).__name__
    for name, each in zip(value.__struct_fields__, msgspec.structs.astuple(value), strict=True):
        if isinstance(each, Guidance):
            words.append(shown(each))
        elif name == "changes" and isinstance(each, tuple):
            words += [row(change) for change in each]
        elif name in DIGESTS:
            continue
        elif isinstance(each, enum.Enum) or (
            name != "terms" and each not in (None, (), "", b"", False, SAME.get(name))
        ):
            text = each.name.lower() if isinstance(each, enum.Enum) else round(each, 3) if name[-2:] == "_s" else each
            words.append(f"{name}={','.join(map(str, each)) if isinstance(each, tuple) else text}")
    return " ".join([kind.lower(), *words])


def answered(text: str) -> Iterator[str]:
    """The transcript, block by block between blank lines, with the present answers."""
    stage = Stage("1")
    for block in text.strip().split("\n\n"):
        lines, said, commands = block.split("\n----")[0].splitlines(), [], 0
        for verb, *words in (line.split() for line in lines if not line.startswith("#")):
            if verb == "node":
                stage = Stage(*words)
            else:
                said += stage.run(verb, *words)
                commands += 1
        yield "\n".join([*lines, "----", *(said or ["nothing"])] if commands else lines)


@over("path", FILES)
def test_transcript(path: Path) -> None:
    now = "\n\n".join(answered(path.read_text())) + "\n"
    if os.environ.get("REWRITE"):
        path.write_text(now)
    assert now.splitlines() == path.read_text().splitlines()


def stories(page: str) -> list[str]:
    """The stories of docs/protocol/transcripts.md, each by its bold first words."""
    return [each.rstrip(".") for each in re.findall(r"^\*\*(.+?)\*\*", page, re.MULTILINE)]


def told() -> list[str]:
    """The stories that the transcripts name."""
    texts = (path.read_text() for path in FILES)
    return [each.rstrip(".") for text in texts for each in re.findall(r"^# Story: (.+)$", text, re.MULTILINE)]


def test_every_story_of_the_protocol_has_its_transcript() -> None:
    """A file of tests/transcripts has `# Story: ` and the bold words of docs/protocol/transcripts.md."""
    expected = stories(PAGE.read_text())
    assert len(expected) > 10
    assert sorted(told()) == sorted(expected)


def test_every_transcript_names_its_story_and_explains_each_block() -> None:
    for path in FILES:
        text = path.read_text()
        assert text.startswith("# Story: "), f"{path.name} names no story"
        for block in text.split("\n\n"):
            assert not block.startswith("node "), f"{path.name}: explain this block in a comment: {block}"


def test_stories_are_found() -> None:
    page = "# Transcripts\n\n**It joins.** It\nis **easy**.\n\n**It is paused** (SIGSTOP)\n"
    assert stories(page) == ["It joins", "It is paused"]
