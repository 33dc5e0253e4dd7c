"""Stories of orders as transcripts: commands, `----`, and every frame and answer that follow.

`REWRITE=1 pytest tests/core/test_order_stories.py` rewrites the answers; read the difference. `->` is a frame on an
edge, `=>` a stream of its own; acknowledgements are left out.

    tree 1 2<1 3<1 4<2 | older 3            a tree; nodes that know no orders
    issue 4 all | issue 4 1-3,7 write 2     an order: its issuer, its targets, service and seconds
    run 0.5                                 time passes
    cancel                                  the command of the last order ends
    stop 2 | continue 2 | kill 2 | move 4 3 | slow 3 1.5 | twice 3
    forget 2 4-5 | learn 2                  a leader does not list nodes of its branch, and does again
    down 2 8-9                              the register of 2 has nodes as down that no roster lists
    young 3                                 for 3 seconds the root may not know all members
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from order_stage import Stage

from subord.core.carriage.engine.ranges import Ranges

FILES = sorted((Path(__file__).parents[1] / "transcripts" / "orders").glob("*.txt"))


def ranges(text: str) -> Ranges:
    pairs = (each.partition("-") for each in text.split(","))
    return Ranges.of_pairs((int(first), int(last or first)) for first, _, last in pairs)


class Player:
    def __init__(self) -> None:
        self.stage = Stage({})

    def do(self, line: str) -> None:
        """One line of commands."""
        words = line.split()
        stage = self.stage
        match words:
            case ["tree", *nodes]:
                older: frozenset[int] = frozenset()
                if "older" in nodes:
                    at = nodes.index("older")
                    older, nodes = frozenset(map(int, nodes[at + 1 :])), nodes[:at]
                pairs = (each.partition("<") for each in nodes)
                self.stage = Stage({int(node): int(leader or 0) for node, _, leader in pairs}, older=older)
            case ["issue", issuer, targets, *rest]:
                service = rest[0] if rest else "read"
                left_s = float(rest[1]) if len(rest) > 1 else 5.0
                stage.issue(int(issuer), None if targets == "all" else ranges(targets), service, left_s)
            case ["cancel"]:
                stage.cancel()
            case ["run", seconds]:
                stage.run(float(seconds))
            case ["stop" | "continue" | "kill" as word, node]:
                {"stop": stage.stop, "continue": stage.go_on, "kill": stage.kill}[word](int(node))
            case ["move", node, leader]:
                stage.move(int(node), int(leader))
            case ["slow", node, seconds]:
                stage.act_s[int(node)] = float(seconds)
            case ["forget", node, nodes]:
                stage.unlisted[int(node)] = set(ranges(nodes))
            case ["learn", node]:
                del stage.unlisted[int(node)]
            case ["down", node, nodes]:
                stage.down[int(node)] = set(ranges(nodes))
            case ["young", seconds]:
                stage.young_until = stage.now + float(seconds)
            case ["twice", node]:
                stage.twice.add(int(node))
            case _:
                raise AssertionError(line)


def played(text: str) -> str:
    """The transcript with the answers of today."""
    player, out = Player(), []
    for block in text.strip().split("\n\n"):
        commands = block.partition("\n----")[0].splitlines()
        before = len(player.stage.lines)
        is_new = any(each.startswith("tree") for each in commands)
        for line in commands:
            if not line.startswith("#"):
                player.do(line)
        new = player.stage.lines[0 if is_new else before :]
        is_note = all(each.startswith("#") for each in commands)
        out.append("\n".join(commands if is_note else [*commands, "----", *(new or ["nothing"])]))
    return "\n\n".join(out) + "\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_story(path: Path) -> None:
    found = path.read_text(encoding="utf-8")
    if os.environ.get("REWRITE"):
        path.write_text(played(found), encoding="utf-8")
    assert played(found) == path.read_text(encoding="utf-8")


def test_there_are_stories() -> None:
    assert len(FILES) >= 8
