"""What the site has to know besides MkDocs: pages that live outside docs/, and links that lead to them.

The documents themselves stay as they are, so that a forge shows them with the same links.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parents[2]
ELSEWHERE = {"lab.md": "netns-lab/README.md", "changelog.md": "CHANGELOG.md"}
HERE = {"README.md": "docs/index.md"}  # what the front page says in other words
LINK = re.compile(r"(\]\()(?!https?://|#)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """The pages from elsewhere, as if they lay in docs/."""
    for page, path in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(REPOSITORY / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between the repository's folders become links between pages."""
    source = ELSEWHERE.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    folder = posixpath.dirname(page.file.src_uri)
    return LINK.sub(lambda found: found[1] + site_link(found[2], source, folder), markdown)


def site_link(target: str, source: str, folder: str) -> str:
    """The link from a page in `folder` of the site to `target`, which the file `source` of the repository names."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    pages = {origin: f"docs/{page}" for page, origin in ELSEWHERE.items()}
    path = pages.get(path) or HERE.get(path, path)
    return posixpath.relpath(path, posixpath.join("docs", folder)) if path.startswith("docs/") else target
