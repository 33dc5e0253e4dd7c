#!/usr/bin/env python3
"""The pictures of the page in docs/page.md: real daemons in the lab and a real Chromium.

The lab starts a cluster, kills some nodes, and chooses a guest; then the page is captured in both colour schemes.

    .venv/bin/python docs/build_screenshots.py          writes docs/page-light.webp and docs/page-dark.webp

Not part of docs/build.py: pictures of real daemons differ from run to run.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

DOCS = Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
sys.path[:0] = [str(REPOSITORY / "netns-lab"), str(REPOSITORY / "tests" / "helpers")]

from chromium import Browser, chromium  # noqa: E402 - found by the line above
from page_of_lab import shown_outside  # noqa: E402

NODES, FANOUT = 300, 6
KILLED = (4, 23, 24, 250)
GUEST = "10.0.0.20"  # its home was 4
SIZE = {"width": 1200, "height": 780, "deviceScaleFactor": 1, "mobile": False}
BYTES_MAX = 150_000


def picture(browser: Browser, url: str, theme: str) -> None:
    """One file."""
    browser.emulate("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.open(f"{url}#{GUEST}")
    browser.until(lambda: browser.all("#why table") and browser.all("#event-list li"), "reasons and events")
    browser.until(lambda: browser.text("#connection-text") == "live", "a live page")
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 80})
    taken = base64.b64decode(shot["data"])
    assert len(taken) < BYTES_MAX, "too large for a document"
    file = DOCS / f"page-{theme}.webp"
    file.write_bytes(taken)
    print(f"{file.relative_to(REPOSITORY)}: {len(taken)} bytes")


def played(lab: Any) -> None:
    """Deaths, until every orphan has another leader."""
    lab.start_all()
    lab.wait_stable(timeout_s=120)
    for position in KILLED:
        lab.kill(position)
    lab.wait_stable(timeout_s=60)


def main() -> None:
    """Needs root or user namespaces, and the packages `chromium` and `chromium-driver`."""
    from netlab.lab import Lab  # noqa: PLC0415 - found by the lines above

    with (
        TemporaryDirectory(prefix="subord-") as folder,
        chromium() as browser,
        Lab(nodes=NODES, fanout=FANOUT) as lab,
    ):
        browser.emulate("Emulation.setDeviceMetricsOverride", **SIZE)
        with shown_outside(lab, 9, Path(folder)) as url:
            played(lab)
            for theme in ("light", "dark"):
                picture(browser, url, theme)
            browser.driver.get("about:blank")


if __name__ == "__main__":
    main()
