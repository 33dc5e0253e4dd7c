"""Checks the keys that select the source of performance, and parses their values.

In: the [node] table. At most one of a fixed number, a file and a URL may be set; a URL must be on this machine.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from subord.config.schema import NodeConfig
from subord.config.source import RawConfig, quoted
from subord.config.validate import refuse

SOURCES = ("performance", "performance_file", "performance_url")
PERFORMANCE_KEYS = (*SOURCES, "performance_metric", "performance_half_life_s")
_LABEL = r'[a-zA-Z_]\w*="[^"\\]*"'
_SELECTOR = re.compile(rf"([a-zA-Z_:][\w:]*)(?:\{{({_LABEL}(?:,{_LABEL})*)\}})?", re.ASCII)


class Selector(NamedTuple):
    """Selects the samples of a Prometheus page with this name and these labels."""

    name: str
    labels: tuple[tuple[str, str], ...]


class Place(NamedTuple):
    """The place of a page on this machine."""

    host: str
    port: int
    path: str


def selector_of(text: str) -> Selector | None:
    """Parses `jobs_total{state="done"}`; None: not of that form."""
    found = _SELECTOR.fullmatch(text)
    if found is None:
        return None
    labels = (part.partition("=") for part in re.findall(_LABEL, found[2] or "", re.ASCII))
    return Selector(found[1], tuple((name, value.strip('"')) for name, _, value in labels))


def place_of(url: str) -> Place | None:
    """Parses `http://127.0.0.1:9100/metrics`; None: not an http URL of this machine."""
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


def check_performance(raw: RawConfig, node: NodeConfig) -> None:
    """Raises ConfigError if the keys of the performance contradict each other or are malformed."""
    sources = [key for key in SOURCES if getattr(node, key)]
    if len(sources) > 1:
        refuse(raw, "node", sources[1], f"and {sources[0]} are both given; remove one of them")
    if node.performance_url and place_of(node.performance_url) is None:
        example = 'e.g. "http://127.0.0.1:9100/metrics"'
        message = f"must be an http address of this machine, {example}, not {quoted(node.performance_url)}"
        refuse(raw, "node", "performance_url", message)
    if node.performance_url and not node.performance_metric:
        refuse(raw, "node", "performance_url", "needs node.performance_metric, the metric to read there")
    if not node.performance_metric:
        return
    if selector_of(node.performance_metric) is None:
        message = f"""must be NAME or NAME{{LABEL="VALUE"}}, not {quoted(node.performance_metric)}"""
        refuse(raw, "node", "performance_metric", message)
    if not (node.performance_file or node.performance_url):
        refuse(raw, "node", "performance_metric", "needs performance_file or performance_url")
