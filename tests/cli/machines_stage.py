"""Virtual machines of eleven nodes, and `subord machines` at one of them."""

from __future__ import annotations

from pathlib import Path

from tests.api.machines_nodes import MachinesNodes
from tests.cli.typed import Said, type_command

FILE = """\
manager = "10.0.0.1"
store_mb = 204800

[[types]]
name = "alma"
template = "alma-9"
queues = ["long", "short"]
cores = 4
memory_mb = 8192
image_mb = 20480

[[types]]
name = "deb"
group = "tests"
template = "debian-12"
queues = ["debian"]
memory_mb = 2048
image_mb = 4096
slots = 2
window_s = 3600
most = 6
"""
"""PLAN of tests/api/machines_nodes.py."""


class MachinesStage(MachinesNodes):
    """`path`: of the control socket of the seventh node. `file`: of the plan."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = ""
        self.file = folder / "plan.toml"
        self.write(FILE)

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def type(self, capsys: Said, *words: str) -> tuple[int, list[str], str]:
        """The exit code, the lines, and what stands on standard error. `FILE` stands for the plan."""
        typed = [str(self.file) if each == "FILE" else each for each in words]
        code, lines, err = type_command(capsys, "machines", *typed, "--socket", self.path)
        return code, lines, err.replace(str(self.file), "plan.toml")
