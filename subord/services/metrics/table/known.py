"""Whether metrics of a name that was typed are known; what a command says when none is."""

from __future__ import annotations

import argparse

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError
from subord.services.asking import asked_root
from subord.services.metrics.wanted import fits


def named(metrics: list[Document], wanted: str | None) -> list[Document]:
    """Those of the name; None: all."""
    return [each for each in metrics if wanted is None or each["name"] == wanted or fits(each["name"], wanted)]


def none_found(arguments: argparse.Namespace) -> CommandError:
    """When an answer has no metric of the name; the root is asked which ones there are."""
    return unknown(arguments.name, asked_root(arguments, "metrics")["metrics"])


def unknown(name: str, metrics: list[Document]) -> CommandError:
    """With the names that there are."""
    known = ", ".join(each["name"] for each in metrics) or "none"
    return CommandError(f"no metric {name!r} is known; there are: {known}", exit_codes.NO_SUCH_NODE)
