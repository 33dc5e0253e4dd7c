"""`subord simulate shares`: the experiments of a paper on shares, figure by figure. No daemon is asked. The options
stand in simulate.py, because `subord --help` describes them without this module."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from subord.client import exit_codes
from subord.client.errors import CommandError, to_stderr

if TYPE_CHECKING:
    from subord.services.shares.simulation.measures import Shares

FIGURES: Final = range(3, 9)
SEEDS: Final = 6
SEEDS_MAX: Final = 1000


def run(given: argparse.Namespace, others: tuple[str, ...], *, prints_json: bool) -> int:
    """Prints the figure. `others`: options of `subord simulate` that have no meaning here. `prints_json`: --json
    names no file."""
    _check(given, others)
    if given.json is not None and not prints_json:
        _check_file(given.json)
    shares = _measured(given)
    if given.json is None:
        from subord.services.shares.simulation.showing import lines

        print("\n".join(lines(shares)))
        return exit_codes.OK
    import msgspec

    text = msgspec.json.encode(shares).decode()
    if prints_json:
        print(text)
        return exit_codes.OK
    try:
        given.json.write_text(text + "\n")
    except OSError as reason:
        raise _file_error(given.json, reason.strerror) from None
    return exit_codes.OK


def _check(given: argparse.Namespace, others: tuple[str, ...]) -> None:
    for name in others:
        value = getattr(given, name.replace("-", "_"))
        if value is not None and value is not False:
            raise _usage_error(f"--{name} has no meaning for `subord simulate shares`: leave it out")
    if given.figure not in FIGURES:
        what = "--figure is missing" if given.figure is None else f"--figure {given.figure}"
        raise _usage_error(f"{what}: give a figure of the paper, {FIGURES[0]} to {FIGURES[-1]}")
    if given.figure == 3:
        for name in ("policy", "skewed"):
            if getattr(given, name):
                raise _usage_error(f"--{name}: in figure 3 no leader decides; leave it out, or give another figure")
    if given.seeds is not None and not 1 <= given.seeds <= SEEDS_MAX:
        raise _usage_error(f"--seeds {given.seeds}: 1 to {SEEDS_MAX} seeds of shares")


def _check_file(path: Path) -> None:
    """Figure 7 takes minutes: what can be known before is said before. Raises CommandError."""
    if os.path.isdir(path):
        raise _file_error(path, os.strerror(errno.EISDIR))
    if not os.path.isdir(path.parent):
        raise _file_error(path, os.strerror(errno.ENOENT))
    if not os.access(path if os.path.exists(path) else path.parent, os.W_OK):
        raise _file_error(path, os.strerror(errno.EACCES))


def _file_error(path: Path, reason: str | None) -> CommandError:
    return CommandError(f"--json {path}: {reason}; nothing was written", exit_codes.OUTPUT)


def _usage_error(text: str) -> CommandError:
    return CommandError(f"{text}. Nothing was started.", exit_codes.USAGE)


def _measured(given: argparse.Namespace) -> Shares:
    from subord.services.shares.policy import UnsolvedError
    from subord.services.shares.reserves import NoSolverError
    from subord.services.shares.simulation.measures import Asked, measured

    first, count = given.first or 0, given.seeds or SEEDS
    is_terminal = sys.stderr.isatty()

    def tell(done: int) -> None:
        if is_terminal:
            to_stderr("\r\x1b[K" if done == count else f"\r{done} of {count} seeds", end="")

    asked = Asked(given.figure, range(first, first + count), given.policy or "bank", given.skewed)
    try:
        return measured(asked, tell)
    except NoSolverError as reason:
        raise CommandError(f"{reason}. Nothing was started.", exit_codes.CONFIGURATION) from None
    except UnsolvedError as reason:
        raise CommandError(f"{reason}. Give another seed, or --policy bank.", exit_codes.NOT_REACHED) from None
