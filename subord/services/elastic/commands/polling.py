"""`subord elastic poll`: has this node look at the queue now.

Input is the daemon of this node; output is a line. What Slurm gives its ResumeProgram and SuspendProgram is not used:
the node asks Slurm which nodes it wants.
"""

from __future__ import annotations

import argparse
import json
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, change
from subord.client.options import socket_path

PATH: Final = "/v1/elastic/poll"
ASKED: Final = "this node looks at the queue now"


def run(arguments: argparse.Namespace) -> int:
    """Raises CommandError."""
    found = change(socket_path(arguments), PATH, arguments.timeout + DAEMON_GRACE_S)
    print(json.dumps(found) if arguments.json else ASKED)
    return exit_codes.OK
