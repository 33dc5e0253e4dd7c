"""The parser of command lines: argparse, with errors in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from subord.client import exit_codes
from subord.client.errors import to_stderr

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class Indented(argparse.RawDescriptionHelpFormatter):
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
