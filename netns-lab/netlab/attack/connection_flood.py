"""Connections to the streams' port without a valid certificate: silent, unsealed, noise, and TLS.

What counts is how often anything but a refusal is answered. At most AT_ONCE_MAX connections are open at once.
"""

from __future__ import annotations

import random
import socket
import ssl
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

PORT = 7117
AT_ONCE_MAX = 48
CONNECT_S_MAX = 2.0
WAIT_S_MAX = 5.0  # longer than a daemon keeps such a connection
READ_BYTES = 4096
WAYS = ("silent", "words", "rubbish", "no_papers", "own_papers")  # as in the figures


class ConnectionFlood:
    """Each connection in a thread of its own. `key_id`: of the cluster, as every datagram shows it."""

    def __init__(self, targets: Sequence[str], own: str, key_id: bytes, seed: str) -> None:
        self._targets = targets
        self._name = f"{key_id.hex()}.subord"
        self._chance = random.Random(seed)
        self._free = threading.BoundedSemaphore(AT_ONCE_MAX)
        self._threads = ThreadPoolExecutor(AT_ONCE_MAX)
        self._contexts = {"own_papers": _context(own), "no_papers": _context(None)}
        self._tried: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._skipped = 0

    def connect(self) -> None:
        """To any target, in any way; not at all while too many wait for an answer."""
        if not self._free.acquire(blocking=False):
            self._skipped += 1
            return
        way, target = self._chance.choice(WAYS), self._chance.choice(self._targets)
        noise = self._chance.randbytes(600)
        self._tried[way] += 1
        self._threads.submit(self._run, target, way, noise)

    def finish(self) -> dict[str, object]:
        """What was done; `answered`: how often a daemon answered with anything but a refusal."""
        self._threads.shutdown()
        counts = {"sent": self._tried.total(), "ways": dict(self._tried), "skipped": self._skipped}
        return {**counts, "answered": self._ends["answered"], "ends": dict(self._ends)}

    def _run(self, target: str, way: str, noise: bytes) -> None:
        try:
            with socket.create_connection((target, PORT), CONNECT_S_MAX) as stream:
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
        if way in self._contexts:
            with self._contexts[way].wrap_socket(stream, server_hostname=self._name) as inside:
                inside.sendall(_roster_request())
                return "answered" if inside.recv(READ_BYTES) else "closed"
        if way != "silent":
            stream.sendall(_roster_request() if way == "words" else noise)
        answer = stream.recv(READ_BYTES)
        return "alarm" if answer[:1] == b"\x15" else "answered" if answer else "closed"  # a TLS alert: RFC 8446, 6


def _roster_request() -> bytes:
    """What an unsealed daemon would answer with the whole cluster."""
    from subord.runtime.frames import frame

    return frame(b"\x82\xa7purpose\xa3ask\xa5topic\xa6roster")


def _context(own: str | None) -> ssl.SSLContext:
    """It accepts every server. With a certificate of an authority of its own, for this address; or with none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if own is not None:
        from subord.sealing.authority import authority_of, own_certificate
        from subord.sealing.keys import new_key

        with tempfile.NamedTemporaryFile() as certificate:
            certificate.write(own_certificate(authority_of(new_key()), own))
            certificate.flush()
            context.load_cert_chain(certificate.name)
    return context
