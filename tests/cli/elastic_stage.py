"""An elastic cluster of eleven nodes, and `subord elastic` at one of them."""

from __future__ import annotations

import pytest

from subord.cli import main
from tests.api.elastic_nodes import ElasticNodes

Said = pytest.CaptureFixture[str]


class ElasticStage(ElasticNodes):
    """`path`: of the control socket of the seventh node."""

    def __init__(self) -> None:
        super().__init__()
        self.path = ""

    def type(self, capsys: Said, *words: str) -> tuple[int, list[str], str]:
        """The exit code, the lines, and what stands on standard error."""
        try:
            code = main(["elastic", *words, "--socket", self.path])
        except SystemExit as error:
            code = int(str(error.code))
        out, err = capsys.readouterr()
        return code, out.splitlines(), err
