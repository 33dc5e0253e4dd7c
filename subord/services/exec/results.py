"""What came of the orders of one command line: shown as it comes, with the coverage as the last line.

Inputs are results and documents of orders (services/giving.py), for nodes of which none is in two orders; outputs are
what showing.py prints, and an exit code.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import to_stderr
from subord.client.folding import in_short
from subord.services.asking import say_coverage, say_unshown
from subord.services.exec.outcome import Ended, Result
from subord.services.exec.showing import Folded, JsonLines, Lines, View, failures
from subord.services.giving import Told


class Results:
    """Of one command line. `names`: of nodes by address."""

    def __init__(self, arguments: argparse.Namespace, names: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._names = names
        self._view: View = JsonLines() if arguments.json else Folded() if arguments.gather else Lines()
        self._ended: list[tuple[Ended, list[str]]] = []
        self._documents: list[Document] = []
        self._heard: set[str] = set()
        self._unread = 0

    def take_all(self, given: Iterable[Told[Result] | Document], tag: bytes) -> None:
        """All of one order; what has come is shown, also when it breaks off. Raises CommandError."""
        try:
            for each in given:
                if isinstance(each, Told):
                    self._take(each, tag)
                else:
                    self._documents.append(each)
        except BaseException:
            self._view.close()
            raise

    def _take(self, told: Told[Result], tag: bytes) -> None:
        if not isinstance(told.result, Ended):
            self._unread += len(told.addresses)
            return
        names = self._named(told.addresses)
        self._heard.update(names)
        self._ended.append((told.result, names))
        self._view.add(told.result, names, tag.hex())

    def _named(self, addresses: Iterable[str]) -> list[str]:
        return [self._names.get(each, each) for each in addresses]

    @property
    def is_well(self) -> bool:
        """Whether all nodes so far have ended with 0."""
        return all(each["complete"] and not each["unshown"] for each in self._documents) and not (
            self._unread or self._code
        )

    @property
    def _code(self) -> int:
        """The highest exit code."""
        return max((ended.code for ended, _ in self._ended), default=0)

    def close(self, not_begun: Sequence[str] = ()) -> int:
        """Show the rest; returns the exit code. `not_begun`: addresses, after a failure."""
        self._view.close()
        covered, names = merged(self._documents), self._named(not_begun)
        is_well = self.is_well and not names
        if self._arguments.json:
            print(json.dumps({**covered, "not_begun": names}))
        elif not (self._arguments.quiet and is_well):
            self._say(covered, names)
        if self._arguments.max_code:
            return max(self._code, exit_codes.OK if is_well or self._code else exit_codes.NOT_REACHED)
        return exit_codes.OK if is_well else exit_codes.NOT_REACHED

    def _say(self, covered: Document, not_begun: list[str]) -> None:
        """How it ended on standard error, the missing nodes in the last line."""
        for line in failures(self._ended):
            to_stderr(f"subord: {line}")
        why = "too many different ones, or of another release; ask fewer nodes"
        say_unshown(covered["unshown"] + self._unread, why)
        if not_begun:
            self._say_not_begun(not_begun)
        words = (
            "{told} of {asked} answered the dry run"
            if self._arguments.dry_run
            else "{told} of {asked} ended in {oldest}"
        )
        say_coverage(covered, self._names, words)

    def break_off(self, part: Sequence[str], rest: Sequence[str]) -> None:
        """The order for `part` has no document, after other results: name the nodes without one. `rest`: those that
        were to be asked afterwards. Addresses."""
        if not (self._documents or self._ended):
            return
        if unheard := [each for each in self._named(part) if each not in self._heard]:
            to_stderr(f"subord: without an answer, so it may have run: {in_short(unheard)}")
        if rest:
            self._say_not_begun(self._named(rest))

    @staticmethod
    def _say_not_begun(names: list[str]) -> None:
        to_stderr(f"subord: not begun after the failure: {in_short(names)}")


def merged(documents: list[Document]) -> Document:
    """The coverage of several orders, for nodes of which none is in two."""
    first, *others = documents
    found = dict(first)
    for each in others:
        for key in ("asked", "told", "unshown", "oldest_ms"):
            found[key] += each[key]
        found["complete"] = found["complete"] and each["complete"]
        found["note"] = found.get("note") or each.get("note")
        found["missing"] = [*found["missing"], *each["missing"]]
        ended = dict(found["ended"])
        for how, nodes in each["ended"].items():
            ended[how] = ended.get(how, 0) + nodes
        found["ended"] = ended
    return found
