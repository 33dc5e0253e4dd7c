"""The page as it is served: complete, with nothing from elsewhere, under a strict content security policy."""

from __future__ import annotations

import re
from pathlib import Path

from loops import over

import subord
from subord.api.handlers.control import control_app
from subord.api.handlers.web import PUBLIC, web_app
from subord.api.http.page import FILES, FRONT, RUNBOOK, TYPES, page_app
from subord.api.http.server import Response
from subord.services.serving import service_app
from tests.api.fake_node_api import World

FOLDER = Path(subord.__file__).with_name("page")
TEXTS = {name: (FOLDER / name).read_text(encoding="utf-8") for name in FILES}
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 450


async def fetched(path: str) -> Response:
    response = await page_app()[path]({})
    assert isinstance(response, Response)
    return response


@over("name", FILES)
async def test_every_file_is_served_as_it_is(name: str) -> None:
    response = await fetched("/" if name == FRONT else f"/{name}")
    assert response.status == 200
    assert response.body == (FOLDER / name).read_bytes()
    assert response.content_type == TYPES[Path(name).suffix]
    policy = dict(response.headers)["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy


def test_the_folder_holds_nothing_else() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*FILES, RUNBOOK}


def test_the_page_stands_at_the_web_address_and_only_there() -> None:
    node = World().node(1)
    control = {**control_app(node), **service_app(node)}
    served = web_app(node, control)
    assert {"/", "/page.js", "/metrics", *PUBLIC} <= set(served)
    assert set(page_app()).isdisjoint(control)


def test_all_files_together_are_small() -> None:
    """In bytes. The files are sent anew to every reader, by daemons on busy machines."""
    assert sum(len(text.encode()) for text in TEXTS.values()) < 162_000


def test_every_address_is_relative_and_served() -> None:
    front = TEXTS[FRONT]
    named = re.findall(r'(?:href|src)="([^"#][^"]*)"', front)
    imported = [
        found
        for text in TEXTS.values()
        for found in re.findall(r'^import .* from "\./([^"]+)";$', text, re.MULTILINE)
    ]
    asked = [found for text in TEXTS.values() for found in re.findall(r'["`](v1/[a-z/]+)', text)]
    assert {*named, *imported} | {FRONT} == set(FILES)
    assert {f"/{path}" for path in asked} <= {*PUBLIC, "/v1/errors"}
    assert len(set(asked)) == 11


@over("name", FILES)
def test_nothing_comes_from_elsewhere(name: str) -> None:
    text = TEXTS[name].replace("http://www.w3.org/2000/svg", "")  # a namespace, not an address
    assert re.findall(r"https?:|//[a-z0-9]+\.[a-z]|@import|url\(", text) == []


@over("name", [name for name in FILES if name.endswith(".js")])
def test_nothing_is_read_as_markup_or_as_a_program(name: str) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setHTML|DOMParser|srcdoc"
    )
    assert re.findall(forbidden, TEXTS[name]) == []


def test_the_front_has_no_inline_script_or_style() -> None:
    """The policy would block them."""
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", TEXTS[FRONT]) == []
    assert re.findall(r"<script[^>]*>(?!</script>)", TEXTS[FRONT]) == []


@over("name", [name for name in FILES if not name.endswith(".svg")])
def test_every_file_opens_with_its_subject(name: str) -> None:
    head = TEXTS[name][:400]
    assert head.startswith(("//", "/*", "<!DOCTYPE html>\n<!--"))
    lines = TEXTS[name].splitlines()
    assert len(lines) <= FILE_LINES_MAX
    assert max(map(len, lines)) <= 200 if name.endswith(".css") else True


@over("name", [name for name in FILES if name.endswith(".js")])
def test_lines_are_no_longer_than_in_python(name: str) -> None:
    long = {number: line for number, line in enumerate(TEXTS[name].splitlines(), 1) if len(line) > 118}
    assert long == {}
