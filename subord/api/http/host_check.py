"""The check of the header `Host` at the web address of a node.

A web page can make a browser ask this node under a host name of the page (DNS rebinding) and read the answer, because
both then have the same origin. `Host` holds that name, so an unknown name is refused. A numeric address is always
accepted: the origin of such a page never has that address, even where ports are forwarded.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from subord.api.node_api import NodeApi

LOCALHOST = "localhost"
FOREIGN_HOST = "this node does not go by this name: ask by address, or set node.web_names"


def host_check(node: NodeApi, web_names: tuple[str, ...] = ()) -> Callable[[str], bool]:
    """A predicate: `Host` is an address, localhost, the machine's name, its name in the host list, or in `web_names`.

    It counts refused requests as `foreign_host`.
    """
    machine = socket.gethostname()
    always = {LOCALHOST, *map(_plain, (machine, machine.partition(".")[0], *web_names))}

    def is_ours(host: str) -> bool:
        name = _name_of(host)
        listed = node.names.get(node.address)  # the host list may be read again
        if name is not None and (_is_address(name) or name in always or (listed and name == _plain(listed))):
            return True
        node.counters.dropped["foreign_host"] += 1
        return False

    return is_ours


def _name_of(host: str) -> str | None:
    """The name in `NAME:PORT`, without the port; None: malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises ValueError for a malformed port
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
