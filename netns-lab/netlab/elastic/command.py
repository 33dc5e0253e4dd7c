"""`supplier SOCKET start NAME KIND`, `stop NAME`, `list`: what elastic.start, elastic.stop and elastic.list run.

The lab copies this file; it imports nothing of the lab, so that it starts as fast as a command of a cloud should.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence

SECONDS_MAX = 120.0


def main(words: Sequence[str]) -> int:
    path, do, *given = words
    request = {"do": do, **dict(zip(("name", "kind"), given, strict=False))}
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(SECONDS_MAX)
        try:
            stream.connect(path)
            stream.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(stream.makefile().readline())
        except (OSError, ValueError) as error:
            print(f"the supplier does not answer: {error}", file=sys.stderr)
            return 1
    if "error" in answer:
        print(answer["error"], file=sys.stderr)
        return 1
    found = answer["ok"]
    for line in [f"{name} {address}" for name, address in found.items()] if do == "list" else [found]:
        print(line or "")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
