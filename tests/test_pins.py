"""constraints.txt: one version of each package, for every supported Python (`./dev pins`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[1]
LINES = (TOP / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = {pin.name: pin for pin in map(Requirement, LINES)}
OLDEST, NEWEST = re.findall(r"^(?:oldest|newest)=(\S+)$", (TOP / "dev").read_text(encoding="utf-8"), re.MULTILINE)
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMPILED = {"libvirt-python"}
"""The packages of optional extras that have no wheels: `./dev setup` leaves out what cannot be compiled."""
UV = Path(sys.executable).with_name("uv")
HOW = ("--no-config", "--quiet", "--no-header", "--system-certs", "--python-platform", "linux")
UNPINNED = {"pip", "setuptools", "subord", "uv"}
"""The packages of a new virtual environment, subord, and what installs them."""


def pinned(name: str, version: str) -> Requirement:
    """The pin of that package, which must be of that version."""
    pin = PINS.get(canonicalize_name(name))
    assert pin is not None, f"{name} is not in constraints.txt: run ./dev pins"
    assert str(pin.specifier) == f"=={version}", f"{name} {version} is not the version of constraints.txt"
    return pin


def test_the_file_holds_each_package_once_and_exactly() -> None:
    assert sorted(LINES) == LINES
    assert len(PINS) == len(LINES)
    for pin in PINS.values():
        assert pin.name == canonicalize_name(pin.name)
        assert [each.operator for each in pin.specifier] == ["=="]


def test_the_oldest_python_is_that_of_the_project() -> None:
    assert PROJECT["requires-python"] == ">=" + OLDEST.removesuffix(".0")


def test_every_dependency_is_pinned_to_the_same_version() -> None:
    extras = PROJECT["optional-dependencies"].values()
    for each in (*PROJECT["dependencies"], *(each for extra in extras for each in extra)):
        pinned(*each.split("=="))


def test_everything_installed_is_pinned_and_admits_the_oldest_and_the_newest_python() -> None:
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if canonicalize_name(name) in UNPINNED or pinned(name, each.version).marker:
            continue
        admitted = SpecifierSet(each.metadata["Requires-Python"] or "")
        for python in (OLDEST, NEWEST):
            assert python in admitted, f"{name} {each.version} does not install with Python {python}: run ./dev pins"


def test_only_an_extra_of_its_own_has_to_be_compiled() -> None:
    extras = {**PROJECT["optional-dependencies"], "": PROJECT["dependencies"]}
    having = {name for name, needs in extras.items() if COMPILED & {need.partition("==")[0] for need in needs}}
    assert having == {"machines"}


@pytest.mark.slow
@pytest.mark.parametrize("python", [OLDEST, NEWEST])
def test_every_pin_installs_without_a_compiler(python: str) -> None:
    """Asks the package index."""
    need_index()
    wanted = [str(pin) for name, pin in PINS.items() if name not in COMPILED]
    ran = resolved(python, wanted)
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.slow
def test_a_pin_without_wheels_is_named() -> None:
    need_index()
    found = resolved(NEWEST, [str(PINS[each]) for each in COMPILED])
    assert found.returncode != 0
    for each in COMPILED:
        assert f"{each}=={version_of(PINS[each])} has no usable wheels" in found.stderr


def need_index() -> None:
    reason = ""
    if not UV.exists():
        reason = f"no {UV.name} beside {sys.executable}: ./dev could not install it"
    elif resolved(OLDEST, LINES[:1]).returncode:
        reason = "no package index can be reached"
    if reason:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


def version_of(pin: Requirement) -> str:
    (only,) = pin.specifier
    return only.version


def resolved(python: str, pins: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """What uv says of these pins, which must have wheels for this Python on x86-64, at the index of pip."""
    command = [UV, "pip", "compile", "--no-deps", "--only-binary=:all:", *HOW]
    pip = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=60).stdout.strip()
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or told
    environment = {**os.environ, "UV_DEFAULT_INDEX": index} if index else None
    words = [*command, "--python-version", python, "-"]
    given = "\n".join(pins)
    return subprocess.run(
        words, env=environment, input=given, capture_output=True, text=True, check=False, timeout=300
    )
