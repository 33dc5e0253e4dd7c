"""The documents as a site: it builds, dead links are errors, and no page loads anything from another host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from loops import over
from markdown_it import MarkdownIt

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
ELSEWHERE = {"lab": "netns-lab/README.md", "changelog": "CHANGELOG.md"}
PAGES = {
    **{path.relative_to(DOCS).with_suffix("").as_posix(): path for path in DOCS.rglob("*.md")},
    **{page: REPOSITORY / at for page, at in ELSEWHERE.items()},
}
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
NO_LOAD = ("canonical", "alternate", "prev", "next")  # values of `rel`: links that browsers do not load
SHOWN = ("h1", "h2", "h3", "h4", "p", "ul", "ol", "li", "table", "th", "td", "pre", "code", "em", "strong")


def built(repository: Path, to: Path) -> subprocess.CompletedProcess[str]:
    """The command of `./dev docs`, see `test_the_command_is_that_of_the_dev_script`."""
    arguments = ["build", "--clean", "--strict", "--config-file", repository / "docs/site/mkdocs.yml"]
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *map(str, arguments), "--site-dir", str(to)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to: Path = tmp_path_factory.mktemp("site")
    done = built(REPOSITORY, to)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr  # `--quiet` would hide them from `--strict`, too
    return to


def test_the_command_is_that_of_the_dev_script() -> None:
    used = re.findall(r'"\$bin/mkdocs" (build .*?) &&', (REPOSITORY / "dev").read_text(encoding="utf-8"))
    assert used == ["build --clean --strict --config-file docs/site/mkdocs.yml"]


# -- contents -------------------------------------------------------------------------------------------------------


def test_every_document_is_a_page(site: Path) -> None:
    assert {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")} == {*PAGES, "404"}


def test_every_page_can_be_reached_from_every_page(site: Path) -> None:
    for page in PAGES:
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        navigation = text.partition("md-sidebar--primary")[2].partition("md-sidebar--secondary")[0]
        targets = re.findall(r'href="([\w./-]+)\.html"', navigation)
        found = {os.path.normpath(os.path.join(os.path.dirname(page), target)) for target in targets}
        assert found | {page} >= PAGES.keys(), page


def test_nothing_but_documents_is_there(site: Path) -> None:
    """No programs and no figures."""
    found = {path.suffix for path in site.rglob("*") if path.is_file() and not path.is_relative_to(site / "assets")}
    assert found <= {".html", ".svg", ".webp", ".xml", ".gz", ".js", ".json"}
    assert not (site / "figures").exists()
    assert not (site / "site").exists()


# -- other hosts ----------------------------------------------------------------------------------------------------


class Loading(HTMLParser):
    """Collects what a browser loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("rel") not in NO_LOAD:
            self.found.append(given.get(LOADING.get(tag, ""), "") or "")


def foreign(html: str) -> list[str]:
    parser = Loading()
    parser.feed(html)
    return [each for each in parser.found if re.match(r"(\w+:)?//", each)]


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    assert {page: foreign((site / f"{page}.html").read_text(encoding="utf-8")) for page in PAGES} == {
        page: [] for page in PAGES
    }


def test_no_style_loads_anything_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:\w+:)?//[^)]*", path.read_text(encoding="utf-8")) == []


def test_no_page_makes_the_theme_load_a_script(site: Path) -> None:
    """Diagrams and the statistics of a forge; the theme's script names their hosts for nothing else."""
    for page in PAGES:
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        assert not re.search(r'class="mermaid"|data-md-component="source"', text), page


@pytest.mark.parametrize(
    ("html", "count"),
    [
        ('<script src="https://unpkg.com/x"></script><img src="//a.example/b.png">', 2),
        ('<link rel="stylesheet" href="https://fonts.example/css">', 1),
        ('<a href="https://example.org">x</a><link rel="canonical" href="https://example.org"><img src="a.svg">', 0),
    ],
)
def test_what_is_foreign_is_seen(html: str, count: int) -> None:
    assert len(foreign(html)) == count


# -- dead links -----------------------------------------------------------------------------------------------------


def spoil_link(docs: Path) -> None:
    (docs / "security.md").write_text("# Security\n\n[lost](nowhere.md)\n", encoding="utf-8")


def spoil_anchor(docs: Path) -> None:
    (docs / "paper.md").write_text("# Paper\n\n[lost](paper.md#nowhere)\n", encoding="utf-8")


def spoil_folder(docs: Path) -> None:
    (docs / "paper.md").write_text("# Paper\n\n[a file that is no page](../LICENSE)\n", encoding="utf-8")


def spoil_navigation(docs: Path) -> None:
    (docs / "forgotten.md").write_text("# Forgotten\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (spoil_link, "'nowhere.md'"),
        (spoil_anchor, "'paper.md#nowhere'"),
        (spoil_folder, "'../LICENSE'"),
        (spoil_navigation, "forgotten.md"),
    ],
)
def test_a_mistake_is_an_error(spoil: Callable[[Path], None], complaint: str, tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("figures", "*.py[co]"))
    for path in ELSEWHERE.values():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / path, tmp_path / path)
    spoil(tmp_path / "docs")
    done = built(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    assert complaint in done.stdout + done.stderr


# -- the site shows what a forge shows ------------------------------------------------------------------------------


class Content(HTMLParser):
    """Headings, paragraphs, lists, tables and their words, without spaces; of a whole page, or of its article."""

    def __init__(self, *, is_page: bool) -> None:
        super().__init__()
        self.is_page = is_page
        self.inside = not is_page
        self.skipped = ""
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            self.inside = True
        elif self.is_page and not self.skipped and tag in ("script", "nav", "button", "a"):
            marks = dict(attrs).get("class") or ""
            self.skipped = tag if tag != "a" or "headerlink" in marks else ""
        if tag in SHOWN and not self.skipped and self.inside:
            self.found.append(f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.inside = False
        if tag in SHOWN and not self.skipped and self.inside:
            self.found.append(f"</{tag}>")
        if tag == self.skipped:
            self.skipped = ""

    def handle_data(self, data: str) -> None:
        if self.inside and not self.skipped:
            self.found.append(data)


def content(html: str, *, is_page: bool) -> str:
    parser = Content(is_page=is_page)
    parser.feed(html)
    text = re.sub(r"\s+", "", "".join(parser.found)).replace("<li><p>", "<li>").replace("</p></li>", "</li>")
    text = text.replace("<code></code>", "").replace("<pre></pre>", "")  # line numbers, copy button
    return text.replace("<pre><code>", "<pre>").replace("</code></pre>", "</pre>")


@over("page", sorted(PAGES))
def test_the_site_shows_what_a_forge_shows(site: Path, page: str) -> None:
    """Two renderers differ about lists, tables and angle brackets: a difference is a mistake in the page."""
    forge = MarkdownIt("commonmark").enable("table").render(PAGES[page].read_text(encoding="utf-8"))
    here = content((site / f"{page}.html").read_text(encoding="utf-8"), is_page=True)
    assert here == content(forge, is_page=False)
    assert len(here) > 1000


# -- in a browser, from the disk ------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here: apt-get install chromium")
def test_the_search_works_from_the_disk_without_a_network(site: Path, tmp_path: Path) -> None:
    """In a real browser that resolves no host."""
    alone = ["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--no-first-run"]
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", *alone),
            *("--virtual-time-budget=15000", "--dump-dom", f"{site.as_uri()}/index.html?q=displacement"),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    results = done.stdout.partition('<ol class="md-search-result__list"')[2].partition("</ol>")[0]
    assert 'href="protocol.html' in results or "/protocol.html" in results, done.stderr[-2000:]
