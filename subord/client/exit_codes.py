"""The exit codes of `subord`, as in sysexits.h where one fits. They are part of the interface and never change."""

from __future__ import annotations

from typing import Final

OK: Final = 0
NOT_REACHED: Final = 1
USAGE: Final = 2
NO_SUCH_NODE: Final = 68  # EX_NOHOST
DAEMON_UNREACHABLE: Final = 69  # EX_UNAVAILABLE
INTERNAL: Final = 70  # EX_SOFTWARE
OUTPUT: Final = 74  # EX_IOERR
TRY_AGAIN: Final = 75  # EX_TEMPFAIL
PERMISSION: Final = 77  # EX_NOPERM
CONFIGURATION: Final = 78  # EX_CONFIG
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells count
PIPE_CLOSED: Final = 141  # 128 + SIGPIPE

MEANINGS: Final = {
    OK: "success, or the requested state holds",
    NOT_REACHED: "the requested state was not reached",
    USAGE: "the command line is wrong",
    NO_SUCH_NODE: "there is no such node: it is outside the network, or unknown",
    DAEMON_UNREACHABLE: "the daemon cannot be reached",
    INTERNAL: "a bug in subord",
    OUTPUT: "the output cannot be written",
    TRY_AGAIN: "no answer in time, a node is dead or cut off, or an address, port or socket is not free: try again",
    PERMISSION: "not permitted",
    CONFIGURATION: "the configuration is wrong",
    INTERRUPTED: "interrupted (Ctrl-C)",
    PIPE_CLOSED: "the output was closed",
}


def table() -> str:
    """The codes as lines of text, for `subord --help`."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())
