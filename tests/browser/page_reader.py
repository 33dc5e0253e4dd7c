"""What the page shows, for the tests."""

from __future__ import annotations

from typing import Any

from chromium import Browser

ROWS = "[role=treeitem]"


def row(address: str) -> str:
    """The selector of the row of a node."""
    return f'{ROWS}[data-key="{address}"]'


def addresses(browser: Browser) -> list[str]:
    """The rows that exist, in the order of the document."""
    return [
        str(each) for each in browser.run(f"return [...document.querySelectorAll('{ROWS}')].map(e => e.dataset.key)")
    ]


def found(browser: Browser) -> set[str]:
    """The rows that were found, without those that are only above a found one."""
    return {
        str(each)
        for each in browser.run(
            f"return [...document.querySelectorAll('{ROWS}:not(.beside)')].map(e => e.dataset.key)"
        )
    }


def focused(browser: Browser) -> str:
    """The address of the row that has the focus, or the name of the element."""
    return str(browser.run("return document.activeElement.dataset.key ?? document.activeElement.id"))


def shape(browser: Browser, address: str) -> str | None:
    """None: it has no row."""
    found: str | None = browser.run(
        "return document.querySelector(arguments[0])?.getAttribute('href')", f"{row(address)} > svg use"
    )
    return found


def figures(browser: Browser) -> dict[str, str]:
    """The numbers of the header by name."""
    shown: dict[str, str] = browser.run(
        "return Object.fromEntries([...document.querySelectorAll('.figures div, #states button')]"
        ".filter((each) => !each.hidden).map((each) => [each.querySelector('dt, .name').innerText,"
        " each.querySelector('dd, .number').innerText]))"
    )
    return shown


def open_to(browser: Browser, level: str) -> None:
    """`fit`, `all`, or a number."""
    browser.run(
        "const level = document.getElementById('level'); level.value = arguments[0];"
        "level.dispatchEvent(new Event('change'))",
        level,
    )


def events(browser: Browser) -> list[str]:
    """Single events, newest first, without the time; also those in closed groups."""
    lines: list[str] = browser.run(
        "return [...document.querySelectorAll('#event-list li:not(:has(details))')].map((each) => "
        "[...each.children].slice(1).map((part) => part.textContent).join(' '))"
    )
    return lines


def event_lines(browser: Browser) -> list[str]:
    """The lines of the list while all groups are closed, without the time."""
    lines: list[str] = browser.run(
        "return [...document.querySelectorAll('#event-list > li')].map((each) => "
        "[...(each.querySelector('summary') ?? each).children].slice(1).map((part) => part.innerText).join(' '))"
    )
    return lines


def box(browser: Browser, selector: str) -> dict[str, Any]:
    rectangle: dict[str, Any] = browser.run(
        "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector
    )
    return rectangle
