"""The identity of this node on disk: `identity` in node.state_directory, made at the first start.

In: the state directory. Out: the signer, and the OpenSSH certificate beside the key, if there is one. A key that
cannot be read prevents the start, because another key would be refused by the other nodes; a key that cannot be saved
is not used, because they would remember it.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from subord.core.identity.signer import Signer
from subord.sealing import keyfile
from subord.sealing.identity import Ed25519Signer, Verifier, new_seed
from subord.sealing.keys import KeyringError
from subord.sealing.openssh import IdentityError, fingerprint, private_text, public_line, seed_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

logger = logging.getLogger("subord")

FILE_NAME: Final = "identity"
CERTIFICATE: Final = "identity-cert.pub"
CERTIFICATE_BYTES_MAX: Final = 16384  # of the text
WHAT: Final = "private key of a node"
LOOK_S: Final = 60.0
PUBLIC_MODE: Final = 0o644
REMEDY: Final = (
    "restore it from a backup, or remove it and have an operator admit the node's new key: `subord forget {address}`"
)
WORDS: Final = {
    "malformed": "it is no certificate of an ed25519 key as `ssh-keygen -s` makes one",
    "of_a_user": "it is for users; `ssh-keygen -h` makes one for hosts",
    "other_key": "it is for another key than that of this node",
    "other_address": "it does not name the address {address} (`ssh-keygen -n {address}`)",
    "restricted": "it has critical options, and those of a node may have none",
    "not_valid_now": "it is not valid now",
}


class Identity:
    """The identity of one node."""

    def __init__(self, signer: Signer, path: str, address: str, since_s: float) -> None:
        """`path`: of the private key, "" if it is on no disk. `since_s`: since 1970, when the key was made."""
        self.signer = signer
        self.since_s = since_s
        self.certificate = b""
        """As OpenSSH encodes it; empty: none."""
        self.expires_at: float | None = None
        """Of the certificate, seconds since 1970; None: there is none."""
        self.complaint = ""
        """Why the certificate on disk is not shown to others."""
        self._address = address
        self._path = os.path.join(os.path.dirname(path), CERTIFICATE) if path else ""
        self._seen = 0
        self.is_saved = bool(path)
        self.read_certificate()

    @property
    def private(self) -> Ed25519PrivateKey | None:
        """The key pair of certificates for streams; None: this node has no identity."""
        return self.signer.private if isinstance(self.signer, Ed25519Signer) else None

    @property
    def fingerprint(self) -> str:
        """SHA256:..., as `ssh-keygen -l` prints it; "" without an identity."""
        return fingerprint(self.signer.key)

    def read_certificate(self) -> bool:
        """Read the certificate if the file has changed; whether another one is shown now. An unusable one is logged
        and the former one stays in use."""
        changed_at = _mtime(self._path)
        if changed_at == self._seen:
            return False
        self._seen, before, self.complaint = changed_at, self.certificate, ""
        try:
            self._take_certificate(changed_at)
        except (IdentityError, OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self.complaint = f"{self._path}: {reason}"
            logger.error("the certificate of this node's identity is not used: %s", self.complaint)
        return self.certificate != before

    def _take_certificate(self, changed_at: int) -> None:
        if not changed_at:
            self.certificate, self.expires_at = b"", None
            return
        # Most nodes have no such file.
        from subord.sealing import host_certificates  # noqa: PLC0415

        with open(self._path, encoding="ascii") as file:
            blob = host_certificates.blob_in(file.read(CERTIFICATE_BYTES_MAX))
        verdict = host_certificates.own_word(blob, self.signer.key, self._address, time.time())
        if verdict.word == "not_valid_now":  # the clock may be wrong: the others decide
            logger.warning("%s: %s", self._path, WORDS[verdict.word])
        elif verdict.word:
            raise IdentityError(WORDS[verdict.word].replace("{address}", self._address))
        self.certificate, self.expires_at = blob, verdict.until_s

    async def renew_forever(self, renewed: Callable[[], None]) -> NoReturn:
        """Call `renewed` when another certificate was read. Reads in the event loop: the file is small."""
        while True:
            await trio.sleep(LOOK_S)
            if self.read_certificate():
                logger.info("%s was read again", self._path)
                renewed()


def opened(directory: str, address: str, *, makes: bool = True) -> Identity:
    """The identity in `directory`; it is made unless there is one. `makes` False: then there is none yet. "": a node
    that keeps nothing has no identity, because the other nodes would refuse its next process.

    Blocks. Raises IdentityError: one sentence for the operator.
    """
    if not directory:
        return Identity(Verifier(), "", address, 0.0)
    path = os.path.join(directory, FILE_NAME)
    try:
        since_s = os.lstat(path).st_mtime
    except FileNotFoundError:
        return _made(path, address) if makes else Identity(Verifier(), "", address, 0.0)
    except OSError as error:
        raise IdentityError(f"{path}: {error.strerror}; it must be readable for the daemon's user") from None
    signer = _read(path, address)
    if makes:
        _write_public(path, signer.key, address)
    return Identity(signer, path, address, since_s)


def _read(path: str, address: str) -> Ed25519Signer:
    try:
        return Ed25519Signer(seed_in(keyfile.secret(path, WHAT, "")))
    except IdentityError as error:
        remedy = REMEDY.replace("{address}", address)
        raise IdentityError(f"{path}: {error}: the identity of this node; {remedy}") from None
    except KeyringError as error:
        raise IdentityError(str(error)) from None


def _made(path: str, address: str) -> Identity:
    """A new identity; without one if it cannot be saved."""
    seed = new_seed()
    signer = Ed25519Signer(seed)
    try:
        _replace(path, private_text(seed, f"subord {address}"), keyfile.MODE)
    except OSError as error:
        words = "%s: %s; the node runs without identity, as older releases do, until a restart can save one"
        logger.error(words, path, error.strerror)
        return Identity(Verifier(), "", address, 0.0)
    _write_public(path, signer.key, address)
    logger.info("made this node's identity %s in %s", fingerprint(signer.key), path)
    return Identity(signer, path, address, time.time())


def _write_public(path: str, key: bytes, address: str) -> None:
    """Keep `identity.pub`, from which an authority makes a certificate. The daemon does not need it."""
    public, text = Path(f"{path}.pub"), public_line(key, f"subord {address}")
    try:
        if not public.exists() or public.read_text(encoding="utf-8").split()[:2] != text.split()[:2]:
            _replace(str(public), text, PUBLIC_MODE)
    except (OSError, UnicodeDecodeError) as error:
        logger.warning("%s: cannot be written: %s", public, error)


def _replace(path: str, text: str, mode: int) -> None:
    """Write a file in one step, so that it is whole or not there. Raises OSError."""
    fresh = Path(f"{path}.new")
    fresh.unlink(missing_ok=True)  # of an interrupted attempt
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "w") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)  # after a power failure the others would meet a third key
    finally:
        os.close(directory)


def _mtime(path: str) -> int:
    """In ns; 0: there is no file."""
    try:
        return os.stat(path).st_mtime_ns if path else 0
    except OSError:
        return 0
