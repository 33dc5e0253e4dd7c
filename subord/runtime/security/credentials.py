"""The identity, key ring, certificates and TLS contexts of one daemon, created and renewed together.

In: the checked configuration. Out: the signer, the sealer, TLS of the streams, the context of the metrics. A node
without a key starts only with `insecure` or on a loopback address.
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
from typing import TYPE_CHECKING

import trio

from subord.config.load import NO_KEY
from subord.config.schema import Config, NodeConfig
from subord.runtime.security import identity, proof
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.peer_identity import HostAuthorities, HostAuthoritiesError, PeerIdentities
from subord.runtime.security.tls import CertificatesError, Secure, Shown, Tls, certificates_of, server_context
from subord.sealing.keys import KeyringError
from subord.sealing.openssh import IdentityError
from subord.sealing.sealer import Sealer, boot_of

if TYPE_CHECKING:
    from subord.runtime.security.certificates import SiteCertificates

logger = logging.getLogger("subord")

SECRET_BYTES = 32
PR_SET_DUMPABLE = 4  # <linux/prctl.h>
UNRAISABLE_S = 60.0


class CredentialsError(Exception):
    """The daemon must not start with this configuration. One sentence for the operator."""


class Credentials:
    """The credentials of one incarnation. `key_ring` is None if nothing is sealed."""

    def __init__(self, config: Config, address: str, *, makes: bool = True) -> None:
        """`makes`: make the identity of the node at its first start. Raises CredentialsError."""
        self._address = address
        self._site: SiteCertificates | None = None
        self._metrics: SiteCertificates | None = None
        node = config.node
        if not config.key_file and not config.insecure and not ipaddress.ip_address(address).is_loopback:
            raise CredentialsError(NO_KEY)
        try:
            authorities = HostAuthorities(config.host_authorities) if config.host_authorities else None
            self.peers = PeerIdentities(authorities)
            self.identity = identity.opened(node.state_directory, address, makes=makes)
            self.key_ring = RunningKeyRing(config.key_file, node.state_directory) if config.key_file else None
            if node.certificate or node.metrics_certificate:
                self._read_files(node, address)
            self.tls = self._tls(self.key_ring)
            self.metrics_context = self._metrics_context()
        except (KeyringError, CertificatesError, IdentityError, HostAuthoritiesError) as error:
            raise CredentialsError(str(error)) from None
        except OSError as error:  # ssl.SSLError is one
            reason = getattr(error, "reason", None) or error.strerror or error
            raise CredentialsError(f"the certificates of this node cannot be used: {reason}") from None

    def _read_files(self, node: NodeConfig, address: str) -> None:
        # Most nodes have no such files, and need no X.509 before their first stream.
        from subord.runtime.security.certificates import METRICS_CERTIFICATE, SiteCertificates  # noqa: PLC0415

        if node.certificate:
            self._site = SiteCertificates(node.certificate, node.authorities, address)
        if node.metrics_certificate:
            self._metrics = SiteCertificates(node.metrics_certificate, setting=METRICS_CERTIFICATE)

    def _tls(self, key_ring: RunningKeyRing | None) -> Tls | None:
        if key_ring is None:
            return None
        if self._site is not None:
            tls = Tls(self._site.issue, partial(self._prove, key_ring), self.peers.judge)
            tls.renew()  # an error of the files must prevent the start
            return tls
        tls = Tls(lambda: certificates_of(key_ring.ring, self._address, self.identity), judge=self.peers.judge)
        key_ring.taken.append(lambda _: tls.forget())
        return tls

    async def _prove(self, key_ring: RunningKeyRing, stream: Secure, peer: str, calling: bool) -> Shown | None:
        caller, called = (self._address, peer) if calling else (peer, self._address)
        signer, certificate = self.identity.signer, self.identity.certificate
        return await proof.shown(
            stream, key_ring.ring, caller, called, calling=calling, signer=signer, certificate=certificate
        )

    def _metrics_context(self) -> ssl.SSLContext | None:
        return None if self._metrics is None else server_context(*self._metrics.issue().values())

    def _renew_metrics(self) -> None:
        self.metrics_context = self._metrics_context()

    def _renew_identity(self) -> None:
        """Show another certificate of the identity on later connections."""
        if self.tls is not None and self._site is None:
            self.tls.forget()

    def sealer(self, port: int, incarnation: int) -> Sealer | None:
        """The sealer of this incarnation (in milliseconds since 1970), which follows the key ring; None: no key."""
        if self.key_ring is None:
            return None
        own = self._address, port
        secret = os.urandom(SECRET_BYTES)
        sealer = Sealer(self.key_ring.ring, own, boot_of(incarnation, secret), secret, trio.current_time())
        self.key_ring.taken.append(sealer.take)
        return sealer

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks that save the key ring and renew certificates."""
        nursery.start_soon(self.identity.renew_forever, self._renew_identity)
        if self.peers.certifies:
            nursery.start_soon(self.peers.renew_forever)
        if self.key_ring is not None:
            nursery.start_soon(self.key_ring.save_forever)
        if self._site is not None and self.tls is not None:
            nursery.start_soon(self._site.renew_forever, self.tls.renew)
        if self._metrics is not None:
            nursery.start_soon(self._metrics.renew_forever, self._renew_metrics)

    @property
    def expires_at(self) -> float | None:
        """Expiry of the node's certificate by the site's authority, seconds since 1970; None: it has none."""
        return None if self._site is None else self._site.expires_at


def protect_memory() -> None:
    """Disable core dumps, because the memory holds keys, and reading by other processes of the user, except root's.

    The limit is 1 and not 0: then a program that collects dumps gets none either (Linux, fs/coredump.c). See
    prctl(2), PR_SET_DUMPABLE.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    limit = 1 if hard == resource.RLIM_INFINITY or hard >= 1 else 0
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        logger.warning(
            "other processes of this user can read the daemon's memory: the kernel rejects PR_SET_DUMPABLE"
        )


def limit_unraisable_log() -> None:
    """Log unraisable exceptions as one short line per UNRAISABLE_S.

    Any host can cause them, for example by a TLS greeting with an invalid name.
    """
    logged_at = -inf

    def log(error: sys.UnraisableHookArgs) -> None:
        nonlocal logged_at
        if time.monotonic() - logged_at >= UNRAISABLE_S:
            logged_at = time.monotonic()
            logger.warning("ignored in %.60s: %.100s", repr(error.object), repr(error.exc_value))

    sys.unraisablehook = log
