"""An elastic cluster of eleven nodes, and `subord elastic` at one of them."""

from __future__ import annotations

from tests.api.elastic_nodes import ElasticNodes
from tests.cli.typed import Said, type_command


class ElasticStage(ElasticNodes):
    """`path`: of the control socket of the seventh node."""

    def __init__(self) -> None:
        super().__init__()
        self.path = ""

    def type(self, capsys: Said, *words: str) -> tuple[int, list[str], str]:
        """The exit code, the lines, and what stands on standard error."""
        return type_command(capsys, "elastic", *words, "--socket", self.path)
