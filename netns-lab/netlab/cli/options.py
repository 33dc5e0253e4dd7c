"""What the commands of the lab share on their command lines: how an option is added, and the values that it takes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf, isfinite
from pathlib import Path
from typing import Any

from netlab.topology.addresses import NODES_MAX
from netlab.topology.layout import NAMES, SPREAD, SPREAD_MAX

MAPPINGS = ("ip", "performance", "latency")
TIMINGS = ("lan", "wan", "lab")

Commands = argparse._SubParsersAction
Parser = argparse.ArgumentParser


class WithDefaults(argparse.RawDescriptionHelpFormatter):
    """Each option that has a default number or word shows it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        """As argparse.ArgumentDefaultsHelpFormatter does, which shows those that say nothing, too."""
        text, default = action.help, action.default
        is_shown = isinstance(default, int | float | str) and not isinstance(default, bool)
        if not action.option_strings or not text or not is_shown or "default" in text or default == argparse.SUPPRESS:
            return text
        return f"{text} (default: {default:g})" if isinstance(default, float) else f"{text} (default: {default})"


def command(commands: Commands[Parser], name: str, text: str, *shared: str, after: str | None = None) -> Parser:
    found = commands.add_parser(name, help=text, description=text, epilog=after, formatter_class=WithDefaults)
    for each in shared:
        found.add_argument(each, **SHARED[each])
    return found


def add_one_size(found: Parser, nodes: int, fanout: int) -> None:
    found.add_argument("--nodes", type=positive, default=nodes, metavar="N")
    found.add_argument("--fanout", type=positive, default=fanout, metavar="P")


def add_seconds(
    found: Parser, name: str, default: float, text: str, kind: Callable[[str], float] | None = None, **more: Any
) -> None:
    found.add_argument(name, type=kind or above_zero, default=default, metavar="SECONDS", help=text, **more)


def add_several(
    found: Parser, name: str, known: tuple[str, ...], metavar: str, text: str | None = None, **more: Any
) -> None:
    """Some of these words, with commas between; by default all of them."""

    def convert(text: str) -> tuple[str, ...]:
        for part in text.split(","):
            if part not in known:
                raise argparse.ArgumentTypeError(f"`{part}`: choose from {', '.join(known)}")
        return tuple(text.split(","))

    how = {"default": known, "help": text or ", ".join(known), **more}
    found.add_argument(name, type=convert, metavar=metavar, **how)


def number_that(holds: Callable[[float], bool], complaint: str) -> Callable[[str], float]:
    """The type of a finite number that meets a condition."""

    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = inf
        if not isfinite(number):
            raise argparse.ArgumentTypeError(f"{text} is not a number")
        if not holds(number):
            raise argparse.ArgumentTypeError(f"{text} {complaint}")
        return number

    return convert


above_zero = number_that(lambda n: n > 0, "is not above 0")
from_zero = number_that(lambda n: n >= 0, "is not 0 or more")


_round = number_that(lambda n: 0.3 <= n <= 600, "is not from 0.3 to 600 s")


def positive(text: str) -> int:
    digits = text.strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def lengths(text: str) -> tuple[float, ...]:
    return tuple(_round(part) for part in text.split(","))


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))


def ranges(text: str) -> tuple[int, ...]:
    """Positions such as 1,3,5-9."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ends = positive(first), positive(last or first)
        if not 0 <= ends[1] - ends[0] < NODES_MAX:
            raise argparse.ArgumentTypeError(f"{part} is no range of nodes")
        found += range(ends[0], ends[1] + 1)
    return tuple(dict.fromkeys(found))


OF_LAB: dict[str, dict[str, Any]] = {
    "--layout": {"default": "dense", "help": f"{', '.join(NAMES)}, or a file with one address a line"},
    "--sites": {"type": Path, "metavar": "FILE.toml", "help": "sites, and the links between them"},
    "--network": {
        "help": "block, or ranges and addresses between commas (default: the layout's, mostly 10.0.0.0/16)"
    },
    "--seeds": {"type": positive, "default": 0, "metavar": "N", "help": "tell daemons of N nodes"},
    "--seed-nodes": {"type": numbers, "default": (), "metavar": "POSITION,...", "help": "or of these nodes"},
    "--announce": {"action": "store_true", "help": "daemons announce themselves by multicast"},
    "--no-disk": {"dest": "disk", "action": "store_false", "help": "daemons keep nothing over a restart"},
    "--insecure": {"action": "store_true", "help": "nothing is sealed"},
    "--mapping": {"choices": MAPPINGS, "default": "ip", "help": "which node may lead which; default: ip"},
    "--spread": {
        "type": number_that(lambda n: n == 0 or 1 <= n <= SPREAD_MAX, f"is neither 0 nor from 1 to {SPREAD_MAX:g}"),
        "default": SPREAD,
        "metavar": "TIMES",
        "help": f"with --mapping performance: how many times as fast the fastest node is (default {SPREAD:g});"
        " 0: nodes measure what they do",
    },
    "--guest-slots": {"type": int, "help": "default: the daemon's"},
    "--timing": {"choices": TIMINGS, "default": "lan", "help": "timing preset of the daemons"},
    "--seed": {"type": int, "default": 1, "help": "of the layout and the random start order"},
    "--exec": {"dest": "execute", "action": "store_true", "help": "execute `subord run` per node, do not fork"},
    "--daemon": {"metavar": "FILE", "help": "a Python file whose main(argv) takes the place of subord"},
    "--rootless": {"action": "store_true", "help": "use a user namespace though we are root"},
}
"""Options that are given to Lab as they are."""
SHARED = OF_LAB | {
    "--name": {"default": "lab", "help": "which lab, when there are several"},
    "--json": {"type": Path, "metavar": "FILE", "help": "write the figures there"},
    "--events": {"type": Path, "metavar": "DIRECTORY", "help": "keep the event log of each run there"},
    "node": {"help": "position or address"},
    "site": {"help": "its name in the file of --sites"},
}
"""Options and arguments of several commands."""
