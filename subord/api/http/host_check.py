"""By which names the web address of a node may be asked.

A page of the Internet can make a browser inside ask us under a name of its own (DNS rebinding) and read the answer,
because for the browser both are one site. The header `Host` then holds that name, so an unknown name is refused. An
address is no name: what is asked by address is never under a page's own name, also where ports are forwarded.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from subord.api.node_api import NodeApi

LOCALHOST = "localhost"
SENTENCE = "this node does not go by this name: ask by address, or set node.web_names"


def host_check(shown: NodeApi, web_names: tuple[str, ...] = ()) -> Callable[[str], bool]:
    """Whether a `Host` is an address, localhost, the name of this machine or in the host list, or of `web_names`.

    Counts those that are not.
    """
    machine = socket.gethostname()
    always = {LOCALHOST, *map(_plain, (machine, machine.partition(".")[0], *web_names))}

    def is_ours(host: str) -> bool:
        name = _name_of(host)
        listed = shown.names.get(shown.address)  # the host list may be read again
        if name is not None and (_is_address(name) or name in always or (listed and name == _plain(listed))):
            return True
        shown.counters.dropped["foreign_host"] += 1
        return False

    return is_ours


def _name_of(host: str) -> str | None:
    """Of `NAME:PORT`, without the port; None: malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for what is none
    except ValueError:
        return None
    return _plain(parts.hostname) if parts.hostname and parts.netloc == host and "@" not in host else None


def _plain(name: str) -> str:
    return name.removesuffix(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
