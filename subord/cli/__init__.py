"""The command line: one module per command, imported only when its command is given, so `subord --help` is fast.

A command is a module with `add(subparsers) -> None`, which describes its arguments and imports nothing heavy, and
`run(arguments) -> int`, which does the work and returns an exit code or raises CommandError.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from subord import __version__
from subord.client import exit_codes
from subord.client.errors import guarded, to_stderr
from subord.services import NAMES, WORDS

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = {
    "run": "subord.cli.run",
    "tree": "subord.cli.tree",
    "status": "subord.cli.status",
    "why": "subord.cli.why",
    **{WORDS.get(name, name): f"subord.services.{name}.command" for name in NAMES},
    "members": "subord.cli.members",
    "forget": "subord.cli.changes.forget",
    "maintain": "subord.cli.changes.maintain",
    "nodeset": "subord.cli.nodeset",
    "events": "subord.cli.events",
    "top": "subord.cli.top",
    "wait": "subord.cli.wait",
    "position": "subord.cli.position",
    "speedup": "subord.cli.speedup",
    "simulate": "subord.cli.simulate",
    "job-done": "subord.cli.changes.job_done",
    "log-level": "subord.cli.changes.log_level",
    "operator": "subord.cli.operators",
    "config": "subord.cli.config_check",
    "completion": "subord.cli.completion",
}
"""The first word of a command line and its module, in the order of `--help`."""


class _Indented(argparse.RawDescriptionHelpFormatter):
    """argparse ignores that the list of commands is indented; without this the longest name gets its own line."""

    def format_help(self) -> str:
        self._action_max_length += self._indent_increment
        return super().format_help()


class Parser(argparse.ArgumentParser):
    """Reports errors in one line and takes no abbreviated options, which would break when options are added."""

    def __init__(self, *args: object, **options: object) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)  # type: ignore[arg-type]

    def parse_known_args(  # type: ignore[override]  # argparse allows namespaces of other classes
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """The subparser reports an unknown word; argparse would leave it to the top parser, which knows less."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        line = " ".join(message.split())
        to_stderr(f"subord: {line}; see {self.prog} --help")
        raise SystemExit(exit_codes.USAGE)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """argparse would ignore that the help cannot be written, and exit with 0."""
        (file or sys.stderr).write(message)


def parser(command: str | None = None) -> Parser:
    """The parser of the whole command line, or of one command only, which does not import the others."""
    top = Parser(
        prog="subord",
        description="Arranges the nodes of a cluster into a tree of subordination, without consensus.",
        epilog=f"exit codes:\n{exit_codes.table()}",
        formatter_class=_Indented,
    )
    top.add_argument("--version", action="version", version=f"subord {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for module in COMMANDS.values() if command is None else [COMMANDS[command]]:
        importlib.import_module(module).add(subparsers)
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run one command (default: the words of this process); returns the exit code. Argparse raises SystemExit."""
    return guarded(lambda: _command(words))


def _command(words: Sequence[str] | None) -> int:
    words = sys.argv[1:] if words is None else words
    first = words[0] if words and words[0] in COMMANDS else None
    arguments = parser(first).parse_args(words)
    exit_code: int = importlib.import_module(COMMANDS[arguments.command]).run(arguments)
    return exit_code
