"""Everything of one daemon that goes by keys and papers: made together, renewed together.

Intuition: the guard room. Here hang the keys and the stamps; whoever opens a door of the house asks here what with.
"""

from __future__ import annotations

import ctypes
import ipaddress
import logging
import os
import resource
import ssl
import sys
import time
from functools import partial
from math import inf

import trio

from subord.config.load import NO_KEY
from subord.config.schema import Config
from subord.runtime.security import proof
from subord.runtime.security.certificates import METRICS_CERTIFICATE, CertificatesError, SiteCertificates
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.tls import Secure, Tls, certificates_of, server_context
from subord.sealing.keys import KeyringError
from subord.sealing.sealer import Sealer, boot_of

logger = logging.getLogger("subord")

SECRET_BYTES = 32
PR_SET_DUMPABLE = 4  # <linux/prctl.h>
UNRAISABLE_S = 60.0


class CredentialsError(Exception):
    """The daemon must not run like this. One sentence for the operator."""


class Credentials:
    """One per life of a daemon. `keeping` is None where nothing is sealed."""

    def __init__(self, given: Config, address: str) -> None:
        """Raises GuardError."""
        self._address = address
        self._site: SiteCertificates | None = None
        self._metrics: SiteCertificates | None = None
        node = given.node
        if not given.key_file and not given.insecure and not ipaddress.ip_address(address).is_loopback:
            raise CredentialsError(NO_KEY)
        try:
            self.keeping = RunningKeyRing(given.key_file, node.state_directory) if given.key_file else None
            if node.certificate:
                self._site = SiteCertificates(node.certificate, node.authorities, address)
            if node.metrics_certificate:
                self._metrics = SiteCertificates(node.metrics_certificate, setting=METRICS_CERTIFICATE)
            self.tls = self._tls(self.keeping)
            self.metrics_context = self._metrics_context()
        except (KeyringError, CertificatesError) as error:
            raise CredentialsError(str(error)) from None
        except OSError as error:  # ssl.SSLError is one
            reason = getattr(error, "reason", None) or error.strerror or error
            raise CredentialsError(f"the certificates of this node cannot be used: {reason}") from None

    def _tls(self, keeping: RunningKeyRing | None) -> Tls | None:
        if keeping is None:
            return None
        if self._site is not None:
            tls = Tls(self._site.issue, partial(self._prove, keeping))
            tls.renew()  # what is wrong with the files shall be said now
            return tls
        tls = Tls(lambda: certificates_of(keeping.ring, self._address))
        keeping.taken.append(lambda _: tls.forget())
        return tls

    async def _prove(self, keeping: RunningKeyRing, stream: Secure, peer: str, calling: bool) -> bool:
        caller, called = (self._address, peer) if calling else (peer, self._address)
        return await proof.shown(stream, keeping.ring, caller, called, calling=calling)

    def _metrics_context(self) -> ssl.SSLContext | None:
        return None if self._metrics is None else server_context(*self._metrics.issue().values())

    def _renew_metrics(self) -> None:
        self.metrics_context = self._metrics_context()

    def sealer(self, port: int, life: int) -> Sealer | None:
        """What the datagrams of this life (its number in milliseconds) go by; it follows the key ring."""
        if self.keeping is None:
            return None
        own = self._address, port
        secret = os.urandom(SECRET_BYTES)
        sealer = Sealer(self.keeping.ring, own, boot_of(life, secret), secret, trio.current_time())
        self.keeping.taken.append(sealer.take)
        return sealer

    def start(self, nursery: trio.Nursery) -> None:
        """What is renewed is watched, what is new is saved."""
        if self.keeping is not None:
            nursery.start_soon(self.keeping.save_forever)
        if self._site is not None and self.tls is not None:
            nursery.start_soon(self._site.renew_forever, self.tls.renew)
        if self._metrics is not None:
            nursery.start_soon(self._metrics.renew_forever, self._renew_metrics)

    @property
    def expires_at(self) -> float | None:
        """Of this node's own certificate by the site's authority, seconds since the epoch; None: it has none."""
        return None if self._site is None else self._site.expires_at


def dump_no_core() -> None:
    """Our memory holds keys. 1, not 0: then a program that takes dumps gets none either (Linux, fs/coredump.c).

    And no other process of our user may read it, as a debugger would (prctl(2), PR_SET_DUMPABLE); root may.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    limit = 1 if hard == resource.RLIM_INFINITY or hard >= 1 else 0
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        logger.warning("other processes of this user can read our memory: the kernel did not take PR_SET_DUMPABLE")


def log_unraisable_seldom() -> None:
    """Strangers can cause errors of which Python can only write to standard error, such as a TLS greeting to a name
    that is none: one short line in UNRAISABLE_S."""
    said_at = -inf

    def say(error: sys.UnraisableHookArgs) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= UNRAISABLE_S:
            said_at = time.monotonic()
            logger.warning("ignored in %.60s: %.100s", repr(error.object), repr(error.exc_value))

    sys.unraisablehook = say
