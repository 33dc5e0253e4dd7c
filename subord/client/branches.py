"""Branches of the tree, in the rows that the daemon tells depth first."""

from __future__ import annotations

from subord.client.daemon import Document


def branch(rows: list[Document], address: str) -> list[Document]:
    """The rows of one node and all below it; none if it is not there."""
    first = next((index for index, row in enumerate(rows) if row["address"] == address), len(rows))
    end = first + 1
    while end < len(rows) and rows[end]["real_level"] > rows[first]["real_level"]:
        end += 1
    return rows[first:end]
