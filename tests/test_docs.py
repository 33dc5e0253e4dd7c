"""The documents match the program: generated parts are fresh, links resolve, commands print what is shown."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from loops import over

from subord import cli
from subord.client import exit_codes
from subord.config.load import load
from subord.sim.scenario import definition

REPOSITORY = Path(__file__).parents[1]
REWRITE = "rewrite it by `.venv/bin/python docs/build.py` and read the difference"
WITHOUT_DAEMON = ("subord position ", "subord nodeset ", "subord config check ", "subord --version")


def _imported_build() -> ModuleType:
    path = REPOSITORY / "docs" / "build.py"
    spec = importlib.util.spec_from_file_location("docs_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = _imported_build()
PAGES: tuple[str, ...] = build.PAGES
WITH_LINKS = (*PAGES, "CHANGELOG.md", "docs/configuration.md")


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)


# -- generated parts ----------------------------------------------------------------------------------------------


@over("page", PAGES)
def test_generated_parts_are_fresh(page: str) -> None:
    assert text_of(page) == build.fresh(text_of(page)), f"{page} is out of date: {REWRITE}"


@over("written", build.PICTURES | build.FILES)
def test_the_pictures_and_files_are_fresh(written: str) -> None:
    text = (build.PICTURES | build.FILES)[written]()
    assert text_of(written) == text, f"{written} is out of date: {REWRITE}"


@over("picture", build.PICTURES)
def test_every_picture_is_shown(picture: str) -> None:
    shown = {(Path(page).parent / target).as_posix() for page, target in links()}
    assert os.path.normpath(picture) in {os.path.normpath(each) for each in shown}


def test_the_picture_shows_the_papers_tree() -> None:
    root = ElementTree.parse(REPOSITORY / "docs" / "tree.svg").getroot()
    words = "".join(root.itertext()).replace("\N{NO-BREAK SPACE}", " ")
    assert "11 nodes, depth 3, all at home, root 10.0.0.1" in words
    assert len(re.findall(r"─ 10\.0\.0\.\d+", words)) == 10


def test_every_generated_part_stands_in_a_page() -> None:
    found = [name for page in PAGES for _, name, _ in build.PART.findall(text_of(page))]
    assert set(found) == set(build.PARTS)


def test_every_begin_has_its_end() -> None:
    for page in PAGES:
        text = text_of(page)
        assert len(build.PART.findall(text)) == text.count("<!-- begin ") == text.count("<!-- end "), page


def test_a_stale_part_is_noticed() -> None:
    stale = text_of("docs/reference.md").replace("there is no such node", "there is such a node")
    assert build.fresh(stale) == text_of("docs/reference.md") != stale


def test_the_build_command_writes_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for page in (*PAGES, *build.PICTURES, *build.FILES):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text(text_of(page).replace("there is no such node", "there is"), encoding="utf-8")
    build.main(tmp_path)
    assert capsys.readouterr().out == "docs/reference.md: written\n"
    assert (tmp_path / "docs/reference.md").read_text(encoding="utf-8") == text_of("docs/reference.md")


# -- handwritten text -----------------------------------------------------------------------------------------------


def links() -> Iterator[tuple[str, str]]:
    for page in WITH_LINKS:
        for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
            if not target.startswith(("https://", "http://")):
                yield page, target


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as forges make them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_resolve() -> None:
    for page, target in links():
        path, _, anchor = target.partition("#")
        there = (REPOSITORY / page).parent / path if path else REPOSITORY / page
        assert there.is_file(), f"{page}: {target} does not exist"
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8")), f"{page}: no heading for {target}"


def consoles() -> Iterator[tuple[str, str, str]]:
    """(page, command, output) of every command that needs no daemon."""
    for page in WITH_LINKS:
        for block in blocks(page, "console"):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield page, command, output


@pytest.fixture
def _groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that docs/node-sets.md shows first."""
    (tmp_path / "groups").write_text(blocks("docs/node-sets.md", "text")[0])
    monkeypatch.setenv("SUBORD_GROUPS", str(tmp_path / "groups"))


@pytest.mark.usefixtures("_groups")
@pytest.mark.parametrize(("page", "command", "output"), list(consoles()))
def test_commands_print_what_is_shown(
    page: str, command: str, output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.startswith(WITHOUT_DAEMON), f"{page}: console blocks need commands without a daemon: {command}"
    monkeypatch.chdir(REPOSITORY)
    assert cli.main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == output


def test_there_are_console_commands() -> None:
    assert list(consoles())


def tomls(*, scenarios: bool) -> list[str]:
    """The TOML blocks: scenarios have steps, configurations have none."""
    shown = [block for page in PAGES for block in blocks(page, "toml") if ("steps = [" in block) == scenarios]
    assert shown
    return shown


def test_scenarios_are_right() -> None:
    for block in tomls(scenarios=True):
        assert definition.read(block).steps


def test_configurations_are_right(tmp_path: Path) -> None:
    for block in tomls(scenarios=False):
        if "[peer]" in block:  # a plan of transfer queues: tests/cli/test_transfer_command.py
            continue
        if "[[types]]" in block:  # a plan of machines: tests/cli/test_machines_page.py
            continue
        file = tmp_path / "subord.toml"
        file.write_text(block, encoding="utf-8")
        assert load(str(file)).cluster.network.text == "10.0.0.0/24"


def test_every_event_has_its_line() -> None:
    sources = text_of("subord/daemon.py") + text_of("subord/runtime/log/notices.py")
    written = set(re.findall(r'(?:events\.write\(|\._report\(\s*logging\.\w+,)\s*"(\w+)"', sources))
    assert len(written) >= 8
    table = text_of("docs/reference.md").partition("## Read the event log")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == written


@pytest.mark.parametrize("page", ["docs/protocol/checking.md", "docs/paper.md", "docs/security.md"])
def test_the_tests_that_a_page_names_exist(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text_of(page))
    assert named
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", text_of(file), re.MULTILINE), f"{file}::{test} does not exist"


def test_all_commands_of_the_dev_script_are_real() -> None:
    commands = set(re.findall(r"^  (\w+)\)", text_of("dev"), re.MULTILINE))
    used = {word for page in PAGES for word in re.findall(r"\./dev (\w+)", text_of(page))}
    assert {"demo", "test"} <= used <= commands


@over("page", [*PAGES, "CHANGELOG.md"])
def test_one_word_for_one_thing(page: str) -> None:
    found = re.findall(r"\b(parent|child(?:ren)?|superior|slave)s?\b", text_of(page), re.IGNORECASE)
    assert found == []


def test_the_import_rule_is_that_of_the_contract() -> None:
    (contract,) = re.findall(r"^layers = \[\n(.*?)^\]$", text_of("pyproject.toml"), re.DOTALL | re.MULTILINE)
    layers = [layer.replace("subord.", "").split(" | ") for layer in re.findall(r'"(.*)"', contract)]
    shown = " → ".join(", ".join(f"`{each}`" for each in layer) for layer in layers)
    assert f"\n{shown}\n" in text_of("docs/architecture.md")


def test_every_folder_of_the_package_has_its_line() -> None:
    package = REPOSITORY / "subord"
    files = (path for path in package.rglob("*") if path.suffix in (".py", ".html") and path.parent != package)
    table = text_of("docs/architecture.md").partition("| folder of `subord/` |")[2].partition("\n\n")[0]
    shown = re.findall(r"^\| `([\w/]+)/` \|", table, re.MULTILINE)
    assert sorted(shown) == sorted({path.parent.relative_to(package).as_posix() for path in files})


# -- the unit -------------------------------------------------------------------------------------------------------


def test_the_unit_runs_a_command_that_exists() -> None:
    unit = text_of("deploy/subord.service")
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    arguments = cli.parser("run").parse_args(shlex.split(line)[1:])
    assert arguments.config == "/etc/subord/subord.toml"
    loaded = load(str(REPOSITORY / "deploy" / "subord.toml"), arguments.set)
    assert loaded.node.state_directory == "/var/lib/subord"
    assert Path(loaded.node.control_socket).parent == Path("/run/subord")
    assert re.search(rf"^RestartPreventExitStatus={exit_codes.CONFIGURATION}$", unit, re.MULTILINE)
