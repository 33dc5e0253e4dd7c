"""`subord wait`: returns when this node has its place, or when the whole tree is stable.

The tree is stable when the root's roster is complete and has not changed for `QUIET_S`; the daemon measures this.
"""

from __future__ import annotations

import argparse
import json
import time

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.daemon import Document, SilentError, UnreachableError, ask
from subord.client.errors import CommandError
from subord.client.options import add_asking, add_json, socket_path, whole_number

QUIET_S = 3.0
"""A tree is stable when the root's roster has not changed for this long."""
POLL_S_MIN, POLL_S_MAX = 0.1, 0.5
LOOK_S_MAX = 5.0
TIMEOUT_S = 30.0


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "wait",
        help="wait until this node has its place, or the tree is stable",
        description="Wait until this node has its place in the tree (placed), or until it has and the root's "
        f"roster has not changed for {QUIET_S:g} s (stable). It waits for a daemon that does not answer yet.",
    )
    parser.add_argument("--state", choices=("placed", "stable"), default="stable", help="default: stable")
    parser.add_argument("--nodes", metavar="N", type=whole_number(1), help="stable only with exactly N live nodes")
    add_json(parser)
    add_asking(parser, TIMEOUT_S)


def run(arguments: argparse.Namespace) -> int:
    """Returns OK once the state holds. Raises `CommandError` with what was missing when time is up."""
    if arguments.nodes is not None and arguments.state == "placed":
        raise CommandError("--nodes needs --state stable: --state placed is about one node", exit_codes.USAGE)
    path = socket_path(arguments)
    started = time.monotonic()
    deadline = started + arguments.timeout
    silent_since: float | None = None
    while True:
        looked_at = time.monotonic()
        left_s = deadline - looked_at
        missing, retry_s, failure = _look(path, arguments, min(max(left_s, POLL_S_MIN), LOOK_S_MAX))
        if not isinstance(failure, SilentError):
            silent_since = None
        elif silent_since is None:
            silent_since = looked_at
        if missing is None or left_s <= 0:
            break
        time.sleep(max(0.0, min(retry_s, deadline - time.monotonic())))
    if silent_since is not None:  # the failure covers only the last look
        silent_s = round(time.monotonic() - silent_since, 1)
        missing = str(SilentError(path, f"has not answered for {silent_s:g} s"))
    waited_s = time.monotonic() - started
    if arguments.json:
        result = {"state": arguments.state, "reached": missing is None, "waited_s": waited_s, "missing": missing}
        print(json.dumps({"schema_version": SCHEMA_VERSION, **result}))
    if missing is None:
        return exit_codes.OK
    code = failure.exit_code if failure else exit_codes.NOT_REACHED
    raise CommandError(f"not {arguments.state} after {arguments.timeout:g} s: {missing}", code)


def unstable(tree: Document, nodes: int | None) -> str | None:
    """What the tree lacks to be stable; None: nothing."""
    note: str | None = tree["note"]
    if not tree["complete"]:
        return note or "the root's roster is not known"
    if nodes is not None and tree["nodes"] != nodes:
        return f"{tree['nodes']} live nodes instead of {nodes}"
    for standing in ("stale", "held"):
        if tree[standing]:
            return f"{tree[standing]} of the nodes {standing}"
    apart = next((row for row in tree["rows"] if row["apart"]), None)
    if apart is not None:
        return f"{apart['address']} {apart['apart']}"
    if tree["quiet_s"] < QUIET_S:
        return f"the tree changed {tree['quiet_s']:.1f} s ago (stable: {QUIET_S:g} s without a change)"
    return None


def unplaced(status: Document) -> str | None:
    """Why this node has no place; None: it has one."""
    return f"{status['address']} has no place yet ({status['phase']})" if status["place"] is None else None


def _look(path: str, arguments: argparse.Namespace, look_s: float) -> tuple[str | None, float, CommandError | None]:
    """What is missing, after how many seconds to look again, and the failure to get an answer."""
    until = time.monotonic() + look_s
    try:
        missing = unplaced(ask(path, "/v1/status", look_s, gives_up_s=arguments.timeout))
        if missing or arguments.state == "placed":
            return missing, POLL_S_MIN, None
        left_s = max(until - time.monotonic(), POLL_S_MIN)
        tree = ask(path, "/v1/tree?form=rows", left_s, gives_up_s=arguments.timeout)
    except CommandError as error:
        if isinstance(error, UnreachableError) or error.exit_code == exit_codes.TRY_AGAIN:
            return str(error), POLL_S_MAX, error
        raise
    missing = unstable(tree, arguments.nodes)
    # Asking earlier is useless: the quiet time cannot be over yet.
    return missing, min(max(QUIET_S - tree["quiet_s"], POLL_S_MIN), POLL_S_MAX), None
