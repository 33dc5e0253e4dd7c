"""Where the number of jobs comes from: one source or none, said without contradiction.

Intuition: a shop has one till. Whoever points at two of them has not decided which one is counted in the evening, and
is asked before the shop opens.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from subord.config.source import Given, quoted
from subord.config.validate import refuse

if TYPE_CHECKING:
    from subord.config.schema import NodeConfig

SOURCES = ("performance", "performance_file", "performance_url")
PERFORMANCE_KEYS = (*SOURCES, "performance_metric", "performance_half_life_s")
_LABEL = r'[a-zA-Z_]\w*="[^"\\]*"'
_SELECTOR = re.compile(rf"([a-zA-Z_:][\w:]*)(?:\{{({_LABEL}(?:,{_LABEL})*)\}})?", re.ASCII)


class Selector(NamedTuple):
    """Samples of a page in the Prometheus text format: those of this name that have these labels."""

    name: str
    labels: tuple[tuple[str, str], ...]


class Place(NamedTuple):
    """Of a page on this machine."""

    host: str
    port: int
    path: str


def selector_of(text: str) -> Selector | None:
    """`jobs_total{state="done"}` taken apart; None: not of that form."""
    found = _SELECTOR.fullmatch(text)
    if found is None:
        return None
    labels = (part.partition("=") for part in re.findall(_LABEL, found[2] or "", re.ASCII))
    return Selector(found[1], tuple((name, value.strip('"')) for name, _, value in labels))


def place_of(url: str) -> Place | None:
    """Of `http://127.0.0.1:9100/metrics`; None: something else, or not on this machine."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        return None
    fits = parts.scheme == "http" and "@" not in parts.netloc and not parts.fragment and _is_here(host)
    if not fits or not (url.isascii() and url.isprintable() and " " not in url):
        return None
    return Place(host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_performance(given: Given, node: NodeConfig) -> None:
    """Raises ConfigError."""
    sources = [key for key in SOURCES if getattr(node, key)]
    if len(sources) > 1:
        refuse(given, "node", sources[1], f"and {sources[0]} are both given; remove one of them")
    if node.performance_url and place_of(node.performance_url) is None:
        example = 'e.g. "http://127.0.0.1:9100/metrics"'
        message = f"must be an http address of this machine, {example}, not {quoted(node.performance_url)}"
        refuse(given, "node", "performance_url", message)
    if node.performance_url and not node.performance_metric:
        refuse(given, "node", "performance_url", "needs node.performance_metric, which says what to look for there")
    if not node.performance_metric:
        return
    if selector_of(node.performance_metric) is None:
        message = f"""must be NAME or NAME{{LABEL="VALUE"}}, not {quoted(node.performance_metric)}"""
        refuse(given, "node", "performance_metric", message)
    if not (node.performance_file or node.performance_url):
        refuse(given, "node", "performance_metric", "needs performance_file or performance_url, where it is found")
