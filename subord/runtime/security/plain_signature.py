"""Accepts plain Ed25519 signatures of operators in this process: ssh-keygen takes two processes for each.

Inputs are a signature, its content and namespace, the text of the operators file and the time of signing; output is
the line of the key, or none: then ssh-keygen decides, also about the word of a refusal. Only forms are read here that
have one meaning: the signature is byte for byte as ssh-keygen writes it, and each line of the file up to that of the
key is a comment or an Ed25519 key behind options that are known. Invariant: what is accepted here, `ssh-keygen -Y
verify` accepts for the first principal of the line.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from subord.runtime.security.allowed_signers import Signer, matches, parse
from subord.runtime.security.sshsig import FOOT, HEAD, MAGIC, SshsigError, decoded, public_key_of

LINES_MAX: Final = 256
LINE_CHARS_MAX: Final = 1_000
"""ssh-keygen has patterns of at most 1,023 characters."""
VERSION: Final = 1
KEY_TYPE: Final = b"ssh-ed25519"
KEY_BYTES, SIGNATURE_BYTES = 32, 64
ROW_CHARS: Final = 70
"""Of Base64, as ssh-keygen writes it."""
HASHES: Final = (b"sha512", b"sha256")

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9@._+-]*"
_OPTION: Final = r'(?:cert-authority|namespaces="[a-z0-9@._*,-]+"|valid-(?:after|before)="2[0-9]+Z")'
_KEY: Final = r"ssh-ed25519[ \t]+[A-Za-z0-9+/]{68}(?:[ \t][ -~]*)?"
_ENTRY: Final = re.compile(rf"{_NAME}(?:,{_NAME})*[ \t]+(?:{_OPTION}(?:,{_OPTION})*[ \t]+)?{_KEY}")
_NO_ENTRY: Final = re.compile(r"[ \t]*(?:#[^\0]*)?")


class _Signed(NamedTuple):
    """`key`: as public keys are written. `hashed`: the hash of the content by its name."""

    key: bytes
    hashed: bytes
    signature: bytes


def signer_of(signature: bytes, content: bytes, namespace: str, signers: str, at_s: int) -> Signer | None:
    """The line of the key that has signed, if it permits that; None: ssh-keygen decides."""
    signed = _signed(signature, namespace.encode())
    signer = _line_of(signed.key, signers) if signed is not None else None
    if signed is None or signer is None or not signer.is_valid(at_s):
        return None
    if signer.namespaces and not matches(signer.namespaces, namespace):
        return None
    return signer if _is_genuine(signed, content, namespace.encode()) else None


def _signed(text: bytes, namespace: bytes) -> _Signed | None:
    """None: another kind of key, or not exactly what ssh-keygen writes."""
    try:
        blob = decoded(text.removeprefix(HEAD).removesuffix(b"\n").removesuffix(FOOT))
    except SshsigError:
        return None
    if text.removesuffix(b"\n") != _armoured(blob):
        return None
    key_begin = _string(KEY_TYPE) + KEY_BYTES.to_bytes(4, "big")
    begin = len(MAGIC) + 8
    key, signature = blob[begin : begin + len(key_begin) + KEY_BYTES], blob[-SIGNATURE_BYTES:]
    for hashed in HASHES:
        head = MAGIC + VERSION.to_bytes(4, "big") + _string(key)
        inner = _string(_string(KEY_TYPE) + _string(signature))
        is_written = blob == head + _string(namespace) + _string(b"") + _string(hashed) + inner
        if is_written and key.startswith(key_begin):
            return _Signed(key, hashed, signature)
    return None


def _armoured(blob: bytes) -> bytes:
    text = base64.b64encode(blob)
    rows = (text[first : first + ROW_CHARS] for first in range(0, len(text), ROW_CHARS))
    return b"\n".join((HEAD, *rows, FOOT))


def _line_of(key: bytes, signers: str) -> Signer | None:
    """The first line of the operators file with a key; None: there is none, or an earlier line is not plain."""
    fingerprint = public_key_of(key).fingerprint
    for line in signers.split("\n")[:LINES_MAX]:
        if _NO_ENTRY.fullmatch(line):
            continue
        if len(line) > LINE_CHARS_MAX or not _ENTRY.fullmatch(line):
            return None
        (signer,) = parse(line)
        if not isinstance(signer, Signer):
            return None
        if not signer.is_authority and signer.fingerprint == fingerprint:
            return signer
    return None


def _is_genuine(signed: _Signed, content: bytes, namespace: bytes) -> bool:
    digest = hashlib.new(signed.hashed.decode(), content).digest()
    written = MAGIC + _string(namespace) + _string(b"") + _string(signed.hashed) + _string(digest)
    try:
        Ed25519PublicKey.from_public_bytes(signed.key[-KEY_BYTES:]).verify(signed.signature, written)
    except (InvalidSignature, ValueError):
        return False
    return True


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
