"""Writes the table of hosts into the file of this node, once for each document.

Inputs are documents that operators have signed and the policy allows, one at a time; outputs are the file, and what
the daemon is told. Invariant: a table that is older than one before is never written again, unless its operator was
revoked (services/newest.py).
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from subord.core.carriage.engine.causes import FAILED, MALFORMED, of_verdict
from subord.runtime.hosts import state
from subord.runtime.hosts.state import DETAIL_CHARS_MAX, NOTES_MAX, Said, encode_said
from subord.services.acting import Context, Handed, Talk
from subord.services.hosts.allowing import not_allowed
from subord.services.hosts.table import Table, decode, outside
from subord.services.hosts.writing import WritingError, write
from subord.services.newest import NotKeptError, accepted

logger = logging.getLogger("subord")
FOLDER: Final = "hosts"
REPLAYED: Final = of_verdict("replayed")
_turn = trio.Lock()


async def attend(handed: Handed, context: Context, talk: Talk) -> str:
    """Write the table of a document; the cause why it was not written."""
    table = decode(handed.document.body)
    if table is None:
        return MALFORMED
    async with _turn:
        said = await trio.to_thread.run_sync(_written, handed, table, context)
    if said is None:
        return REPLAYED
    await talk.send(encode_said(said))
    return FAILED if said.word == state.FAILED else ""


def _written(handed: Handed, table: Table, context: Context) -> Said | None:
    """What came of it; None: a newer one was accepted before. Blocks."""
    path, version = context.elastic.hosts_file, handed.document.version
    if not path:
        return Said(state.OFF)
    if context.network is not None and (others := outside(table, context.network)):
        first = f"{others[0].name} has {others[0].address}"
        text = f"{first}, which is no address of the cluster's network: publish another table; {path} is unchanged"
        return _failed(text)
    try:
        if fault := not_allowed(handed, table, context, FOLDER):
            return _failed(f"{fault}; {path} is unchanged")
        if not accepted(handed, context.directory, FOLDER):
            return None
        notes = write(path, table, version)
    except (NotKeptError, WritingError) as error:
        return _failed(str(error))
    logger.info("hosts: version %d of %s is in %s", version, handed.principal, path)
    return Said(state.APPLIED, notes=tuple(each[:DETAIL_CHARS_MAX] for each in notes[:NOTES_MAX]))


def _failed(text: str) -> Said:
    logger.error("hosts: %s", text)
    return Said(state.FAILED, text[:DETAIL_CHARS_MAX])
