"""docs/configuration.md is generated from the types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from subord.config import docs
from subord.config.schema import TABLES
from subord.config.validate import keys_of

REPOSITORY = Path(__file__).parents[1]


def test_the_documentation_is_up_to_date() -> None:
    path = REPOSITORY / "docs" / "configuration.md"
    rewrite = "rewrite it by `python -m subord.config.docs docs/configuration.md`"
    assert path.read_text(encoding="utf-8") == docs.page(), rewrite


@pytest.mark.slow
def test_the_documentation_is_written_by_the_command_it_names(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "subord.config.docs"]
    subprocess.run([*command, str(tmp_path / "page.md")], cwd=REPOSITORY, check=True)
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == docs.page()
    assert subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False).returncode == 1


def test_every_key_has_a_meaning() -> None:
    for kind in TABLES.values():
        assert docs.docstrings_of(kind).keys() == keys_of(kind).keys()
