"""The words by which the lab calls itself: few imports, and the exit codes of a command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .lab_helpers import netlab, run_lab

HEAVY = """
import sys
sys.path.insert(0, {lab!r})
from netlab.cli import entry
code = entry.main(["exec-in", "absent-lab", "7", "true"])
heavy = ("netlab.cli.", "netlab.experiments", "argparse")
print(code, sorted(each for each in sys.modules if each.startswith(heavy)))
"""


@pytest.mark.slow
def test_a_word_of_the_lab_imports_no_command_line() -> None:
    lab = str(netlab("lab").__file__).rpartition("/netlab/")[0]
    done = subprocess.run([sys.executable, "-c", HEAVY.format(lab=lab)], capture_output=True, text=True, check=True)
    assert done.stdout == "1 ['netlab.cli.ending', 'netlab.cli.entry']\n"
    assert done.stderr.startswith("No lab named absent-lab is running")


def test_other_words_are_commands() -> None:
    assert run_lab("keep").returncode == 2
    assert "invalid choice: 'keep'" in run_lab("keep").stderr
