"""Transfer queues of eleven nodes, and `subord transfer` at one of them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.api.transfer_nodes import CERTIFICATE, TransferNodes
from tests.cli.typed import Said, type_command

FILE = f"""\
host = "10.0.0.1"
cluster = "north"
slots_max = 16

[peer]
name = "south"
addresses = ["10.0.1.5:9720"]
certificates = ["{CERTIFICATE}"]

[[queues]]
name = "transfer"

[[users]]
theirs = "eve"
ours = "ann"
"""
"""PLAN of tests/api/transfer_nodes.py."""


class TransferStage(TransferNodes):
    """`path`: of the control socket of the seventh node. `file`: of the plan."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = ""
        self.file = folder / "plan.toml"
        self.write(FILE)

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def type(self, capsys: Said, *words: str) -> tuple[int, list[str], str]:
        """The exit code, the lines, and what stands on standard error. `FILE` stands for the plan. Nodes of this
        process answer within milliseconds, on a busy machine in some more."""
        typed = [str(self.file) if each == "FILE" else each for each in words]
        code, lines, err = type_command(capsys, "transfer", *typed, "--socket", self.path)
        lines = [re.sub(r" answered in \d+ ms$", " answered in 0 ms", each) for each in lines]
        return code, lines, err.replace(str(self.file), "plan.toml")
