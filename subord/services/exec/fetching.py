"""`subord exec --fetch`: the output that a node has kept of an earlier order, in pieces, each with a signed order.

Inputs are the tag that the earlier order has shown, and the node; outputs are its two streams, as the command wrote
them. The user (-u) must be that of the earlier order.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from typing import Final

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.member_choice import chosen_places
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.core.carriage.engine.causes import BUSY
from subord.services.asking import coverage_line
from subord.services.exec.giving import give, payload_of
from subord.services.exec.managing import tag_of
from subord.services.exec.outcome import SENTENCES, Ended, Piece
from subord.services.exec.targets import Targets
from subord.services.exec.task import Fetch
from subord.services.giving import Told

PIECE_S: Final = 5.0
BUSY_S: Final = 1.0
BUSY_TIMES_MAX: Final = 10


def fetch(arguments: argparse.Namespace, tag: str, node: str) -> int:
    """Raises CommandError."""
    of = tag_of(tag)
    places = chosen_places(arguments, [node])
    if len(places) != 1:
        raise CommandError(f"--fetch takes one node, not {len(places)}", exit_codes.USAGE)
    for stream, out in ((1, sys.stdout), (2, sys.stderr)):
        offset = size = -1
        while offset < size or size < 0:
            offset = max(0, offset)
            piece = _piece(arguments, Fetch(of, stream, offset), Targets(places, False), node)
            out.buffer.write(piece.data)
            offset, size = offset + len(piece.data), piece.size
            if not piece.data:
                break
        out.flush()
    return exit_codes.OK


def _piece(arguments: argparse.Namespace, task: Fetch, targets: Targets, node: str) -> Piece:
    for _ in range(BUSY_TIMES_MAX):
        found = _asked(arguments, task, targets, node)
        if found is not None:
            return found
        time.sleep(BUSY_S)
    raise CommandError(f"{node} is busy, perhaps it checks too many signatures; try again", exit_codes.TRY_AGAIN)


def _asked(arguments: argparse.Namespace, task: Fetch, targets: Targets, node: str) -> Piece | None:
    """None: the node checks no more signatures just now. Raises CommandError."""
    for each in give(arguments, payload_of(task), targets, PIECE_S, secrets.token_bytes(TAG_BYTES)):
        if not isinstance(each, Told):
            if [one["cause"] for one in each["missing"]] == [BUSY]:
                return None
            for missing in each["missing"]:
                missing["nodes"] = node
            raise CommandError(coverage_line(each, "{told} of {asked} answered"), exit_codes.NOT_REACHED)
        if isinstance(each.result, Piece):
            return each.result
        how = each.result.how if isinstance(each.result, Ended) else ""
        raise CommandError(f"{node}: {SENTENCES.get(how, 'it runs another release')}", exit_codes.NOT_REACHED)
    raise AssertionError("an order has an end")
