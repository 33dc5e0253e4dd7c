"""What streams have shown of the identities of other nodes, and which nodes are refused.

In: the identity that the other side of a stream has proved, the key that this node remembers for the address, whether
the cluster is strict, and the site's authorities (certified mode). Out: "" or the reason to refuse, and what is known
of each address. Invariant: an address with a key is never taken by another key, unless an authority has certified it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import trio

from subord.core.tables import BoundedMap
from subord.runtime.security.tls import Shown

if TYPE_CHECKING:
    from subord.sealing.host_certificates import Authorities

logger = logging.getLogger("subord")

PEERS_MAX: Final = 8192
LOOK_S: Final = 60.0
FILE_BYTES_MAX: Final = 1 << 20
SETTING: Final = "cluster.host_authorities"
FOREIGN_KEY, NO_IDENTITY, REVOKED_KEY = "tls_foreign_key", "tls_no_identity", "tls_revoked_key"
CERTIFICATE_REASON: Final = "tls_certificate_"
"""Followed by "missing", or a word of host_certificates.py."""


class HostAuthoritiesError(Exception):
    """The file cannot be used. One sentence for the operator."""


class HostAuthorities:
    """The site's authorities for identities, from a file that is read again when it changes."""

    def __init__(self, path: str) -> None:
        """Raises HostAuthoritiesError."""
        self._path = path
        self._seen = 0
        self.read()

    def read(self) -> bool:
        """Read the file if it has changed; whether it has. Raises HostAuthoritiesError; then the former ones stay."""
        # Only certified mode needs certificates by OpenSSH.
        from subord.sealing.host_certificates import authorities_in  # noqa: PLC0415
        from subord.sealing.openssh import IdentityError  # noqa: PLC0415

        try:
            changed_at = os.stat(self._path).st_mtime_ns
            if changed_at == self._seen:
                return False
            self._seen = changed_at
            with open(self._path, encoding="utf-8") as file:
                self.authorities: Authorities = authorities_in(file.read(FILE_BYTES_MAX))
        except OSError as error:
            raise HostAuthoritiesError(f"{SETTING}: {self._path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise HostAuthoritiesError(f"{SETTING}: {self._path}: not plain text") from None
        except IdentityError as error:
            raise HostAuthoritiesError(f"{SETTING}: {self._path}: {error}") from None
        return True


class Known(NamedTuple):
    """What the last stream with an address has shown. `until_s`: until then, seconds since 1970, an authority has
    certified the key; 0.0: none has, or this node asks for no certificates."""

    key: bytes
    until_s: float = 0.0


class PeerIdentities:
    """The identities of the other nodes, by address."""

    def __init__(self, authorities: HostAuthorities | None = None, clock: Callable[[], float] = time.time) -> None:
        """`authorities`: certified mode. `clock`: seconds since 1970."""
        self._host_authorities = authorities
        self._clock = clock
        self._known: BoundedMap[str, Known] = BoundedMap(PEERS_MAX)
        self.pinned: Callable[[str], bytes] = lambda _: b""
        """The key that an address keeps until an operator forgets the node; b"": none."""
        self.is_strict: Callable[[], bool] = lambda: False
        """Whether nodes without identity are refused."""
        self.is_revoked: Callable[[bytes], bool] = lambda _: False
        """Whether operators have revoked the key."""
        self.on_uncertified: Callable[[bytes], None] = lambda _: None
        """Receives a key that was refused because no authority has certified it."""

    @property
    def certifies(self) -> bool:
        """Whether a key counts only with a certificate of the site's authority."""
        return self._host_authorities is not None

    def __len__(self) -> int:
        return len(self._known)

    def judge(self, address: str, shown: Shown) -> str:
        """Whether to refuse a stream with `address`, and why: see `Judge`."""
        pinned, is_strict = self.pinned(address), self.is_strict()
        if not shown.key:
            return NO_IDENTITY if pinned or is_strict else ""
        if self.is_revoked(shown.key):
            return REVOKED_KEY
        until_s, word = self._certified(address, shown)
        if not word and self.certifies:
            self._known[address] = Known(shown.key, until_s)  # also in place of another key
            return ""
        if pinned and shown.key != pinned:
            return FOREIGN_KEY
        if word and is_strict:
            self.on_uncertified(shown.key)
            return CERTIFICATE_REASON + word
        self._known[address] = Known(shown.key)
        return ""

    def _certified(self, address: str, shown: Shown) -> tuple[float, str]:
        """Until when an authority has certified the key, and why it has not."""
        if self._host_authorities is None:
            return 0.0, ""
        if not shown.certificate:
            return 0.0, "missing"
        from subord.sealing.host_certificates import judged  # noqa: PLC0415

        verdict = judged(shown.certificate, shown.key, address, self._clock(), self._host_authorities.authorities)
        return verdict.until_s, verdict.word

    def is_certified(self, address: str, key: bytes) -> bool | None:
        """Whether an authority has certified this key for the address, as the last stream with it has shown.

        None: it is not known, or this node asks for no certificates.
        """
        known = self._known.get(address)
        if not self.certifies or known is None or known.key != key:
            return None
        return self._clock() < known.until_s

    def key_of(self, address: str) -> bytes:
        """The key that the last stream with the address has shown; b"": none."""
        known = self._known.get(address)
        return b"" if known is None else known.key

    def forget(self, address: str) -> None:
        """Forget the key of an address, as an operator has asked: the next key counts."""
        self._known.pop(address, None)

    def _expire(self) -> None:
        for address, known in list(self._known.items()):
            self._known[address] = Known(known.key)

    async def renew_forever(self) -> NoReturn:
        """Read the authorities again when their file has changed; what the former ones certified counts no longer."""
        while True:
            await trio.sleep(LOOK_S)
            try:
                if self._host_authorities is not None and self._host_authorities.read():
                    logger.info("%s was read again", SETTING)
                    self._expire()
            except HostAuthoritiesError as error:
                logger.error("the new authorities of identities were rejected, the old ones stay in use: %s", error)
