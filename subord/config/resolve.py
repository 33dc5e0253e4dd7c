"""Looks host names up. The only module that calls the system's resolver.

A lookup may block for long: call it from a thread, or before the event loop runs.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Literal

Version = Literal[4, 6]
Resolve = Callable[[str, Version | None], tuple[str, ...]]
"""(name, IP version or None for both) -> addresses, as `addresses_of`."""

_FAMILIES: dict[Version | None, int] = {None: socket.AF_UNSPEC, 4: socket.AF_INET, 6: socket.AF_INET6}


class ResolveError(Exception):
    """The name has no address. `passing`: the cause is temporary. The text follows the name in a message."""

    def __init__(self, text: str, *, passing: bool) -> None:
        super().__init__(text)
        self.passing = passing


def addresses_of(name: str, version: Version | None) -> tuple[str, ...]:
    """At least one address, each once, without scope, in the resolver's order. Blocks. Raises ResolveError."""
    try:
        answers = socket.getaddrinfo(name, None, _FAMILIES[version], socket.SOCK_DGRAM)
    except socket.gaierror as error:
        passing = error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM)
        raise ResolveError((error.strerror or str(error)).lower(), passing=passing) from None
    except (OSError, UnicodeError) as error:
        raise ResolveError(str(error), passing=isinstance(error, OSError)) from None
    return tuple(dict.fromkeys(str(answer[4][0]).partition("%")[0] for answer in answers))
