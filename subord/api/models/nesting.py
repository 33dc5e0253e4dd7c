"""Flat rows with a depth as nested JSON objects.

Nothing recurses, so any depth is possible. Imports nothing, because the daemon and the command line both use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def nested(head: str, rows: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Pieces of the JSON text `{head..., "roots": [{row..., "subordinates": [...]}]}`.

    `head` and the texts of the rows are JSON objects that are not empty. `rows` is depth first: the first depth is 0
    and no depth rises by more than one.
    """
    yield head[:-1] + ', "roots": ['
    open_rows = 0
    for depth, text in rows:
        assert 0 <= depth <= open_rows, f"depth {depth} cannot follow {open_rows - 1}"
        if depth < open_rows:
            yield "]}" * (open_rows - depth) + ", "
        yield text[:-1] + ', "subordinates": ['
        open_rows = depth + 1
    yield "]}" * open_rows + "]}"
