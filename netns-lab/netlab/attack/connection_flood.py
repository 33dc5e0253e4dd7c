"""Connections to the streams' port by somebody who must not be let in.

Intuition: a door-to-door swindler. At one door he rings and says nothing, at the next he talks as though he belonged
to the house; where papers are asked for he has none, or one that he stamped himself. He counts the doors at which
anybody talks back.
"""

from __future__ import annotations

import random
import socket
import ssl
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence

PORT = 7117
AT_ONCE_MAX = 48
CONNECT_S_MAX = 2.0
WAIT_S_MAX = 5.0  # longer than strangers are borne
READ_BYTES = 4096
WAYS = ("silent", "words", "rubbish", "no_papers", "own_papers")


class Knocker:
    """Each knock in a thread of its own, at most AT_ONCE_MAX. `key_id`: of the cluster, as everybody can read it."""

    def __init__(self, doors: Sequence[str], own: str, key_id: bytes, seed: str) -> None:
        self._doors = doors
        self._name = f"{key_id.hex()}.subord"
        self._chance = random.Random(seed)
        self._free = threading.BoundedSemaphore(AT_ONCE_MAX)
        self._threads: list[threading.Thread] = []
        self._own_papers = _context(own)
        self._no_papers = _context(None)
        self.knocks: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._skipped = 0

    def knock(self) -> None:
        """At any door, in any way; not at all while too many wait for an answer."""
        if not self._free.acquire(blocking=False):
            self._skipped += 1
            return
        way, door, noise = self._chance.choice(WAYS), self._chance.choice(self._doors), self._chance.randbytes(600)
        self.knocks[way] += 1
        thread = threading.Thread(target=self._at, args=(door, way, noise), daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        thread.start()

    def finish(self) -> None:
        """Until the last has been sent away."""
        for thread in self._threads:
            thread.join()

    def found(self) -> dict[str, object]:
        """`answered`: how often anything was said to us but that we should go."""
        return {"answered": self._ends["answered"], "skipped": self._skipped, "ends": dict(self._ends)}

    def _at(self, door: str, way: str, noise: bytes) -> None:
        try:
            with socket.create_connection((door, PORT), CONNECT_S_MAX) as stream:
                stream.settimeout(WAIT_S_MAX)
                end = self._talk(stream, way, noise)
        except TimeoutError:
            end = "waited"
        except OSError:  # ssl.SSLError is one
            end = "refused"
        finally:
            self._free.release()
        self._ends[end] += 1

    def _talk(self, stream: socket.socket, way: str, noise: bytes) -> str:
        if way in ("no_papers", "own_papers"):
            context = self._own_papers if way == "own_papers" else self._no_papers
            with context.wrap_socket(stream, server_hostname=self._name) as inside:
                inside.sendall(_roster_please())
                return "answered" if inside.recv(READ_BYTES) else "closed"
        if way != "silent":
            stream.sendall(_roster_please() if way == "words" else noise)
        heard = stream.recv(READ_BYTES)
        return "alarm" if heard[:1] == b"\x15" else "answered" if heard else "closed"  # TLS: an alert, RFC 8446, 6


def _roster_please() -> bytes:
    """What an unsealed daemon would answer with the whole cluster."""
    from subord.runtime.frames import frame

    return frame(b"\x82\xa7purpose\xa3ask\xa5topic\xa6roster")


def _context(own: str | None) -> ssl.SSLContext:
    """We believe everybody. With papers of an authority of our own, for our address; or with none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if own is not None:
        from subord.sealing.authority import authority_of, passport
        from subord.sealing.keys import new_key

        with tempfile.NamedTemporaryFile() as papers:
            papers.write(passport(authority_of(new_key()), own))
            papers.flush()
            context.load_cert_chain(papers.name)
    return context
