"""Certificates of the site's own authority, from files that are read again when they change.

In: PEM files. Out: `Certificates` for new TLS contexts. Changed files are checked once in LOOK_S; files that cannot
be used are logged once, and the old certificates stay in use.
"""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NoReturn

import trio
from cryptography import x509

from subord.runtime.security.tls import Certificates, CertificatesError
from subord.sealing import keyfile
from subord.sealing.keys import KeyringError

logger = logging.getLogger("subord")

SITE = "site"  # the name in the TLS greeting (SNI), in place of the name of a key
LOOK_S = 60.0
PEM_BYTES_MAX = 1 << 20
CERTIFICATE = "node.certificate"  # the keys of the configuration, for errors
METRICS_CERTIFICATE = "node.metrics_certificate"
AUTHORITIES = "node.authorities"
PEM = "PEM file"
WANTED = "it must hold a private key and then its certificate, in PEM"


class SiteCertificates:
    """The certificate of this node and the trusted authorities."""

    def __init__(
        self, certificate: str, authorities: str = "", address: str = "", *, setting: str = CERTIFICATE
    ) -> None:
        """`certificate`: PEM file with the private key, its certificate and any intermediate ones. `authorities`: PEM
        file of the trusted authorities, or "". `address`: must be in the certificate, unless "". `setting`: the key
        of the configuration that names `certificate`. Raises CertificatesError.
        """
        self._setting = setting
        self._address = address
        self._certificate = certificate
        self._authorities = authorities
        self._seen: tuple[int, ...] = ()
        self.expires_at = 0.0
        """Seconds since the epoch."""
        self.issue()

    def issue(self) -> dict[str, Certificates]:
        """Read and check the files. Raises CertificatesError."""
        seen = self._mtimes()
        try:
            ours = keyfile.secret(self._certificate, PEM, WANTED)
            trusted = _public(self._authorities) if self._authorities else ""
            first = x509.load_pem_x509_certificate(ours.encode())
            complaint = _complaint(first, self._address)
        except KeyringError as error:
            raise CertificatesError(f"{self._setting}: {error}") from None
        except ValueError:
            raise self._refused(f"there is no certificate in it; {WANTED}") from None
        if complaint:
            raise self._refused(complaint)
        self._seen, self.expires_at = seen, first.not_valid_after_utc.timestamp()
        return {SITE: Certificates(ours.encode(), trusted)}

    def _refused(self, complaint: str) -> CertificatesError:
        return CertificatesError(f"{self._setting}: {self._certificate}: {complaint}")

    def _mtimes(self) -> tuple[int, ...]:
        """The modification times of the files in ns; 0: missing."""
        found = []
        for path in filter(None, (self._certificate, self._authorities)):
            try:
                found.append(os.stat(path).st_mtime_ns)
            except OSError:
                found.append(0)
        return tuple(found)

    async def renew_forever(self, renew: Callable[[], None]) -> NoReturn:
        """Call `renew`, which calls `issue`, when the files have changed. Reads in the event loop: they are small."""
        while True:
            await trio.sleep(LOOK_S)
            mtimes = self._mtimes()  # before reading, so that a later write is noticed
            if mtimes == self._seen:
                continue
            expires_at = self.expires_at
            try:
                renew()
            except (CertificatesError, OSError) as error:  # ssl.SSLError is one
                self.expires_at = expires_at
                logger.error("the new certificate files were rejected, the old ones stay in use: %s", error)
                self._seen = mtimes  # log each change once
            else:
                until = datetime.fromtimestamp(self.expires_at, UTC).isoformat()
                logger.info("%s was read again: valid until %s", self._certificate, until)


def _complaint(certificate: x509.Certificate, address: str) -> str:
    """Why the certificate cannot be used now; "": it can."""
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        return f"valid from {certificate.not_valid_before_utc} to {certificate.not_valid_after_utc} only"
    if not address:
        return ""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_ours = ipaddress.ip_address(address.partition("%")[0]) in names.get_values_for_type(x509.IPAddress)
    except x509.ExtensionNotFound:
        is_ours = False
    return "" if is_ours else f"it does not name the address {address} (subjectAltName)"


def _public(path: str) -> str:
    """The certificates of the trusted authorities. Raises CertificatesError."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(PEM_BYTES_MAX)
        x509.load_pem_x509_certificates(text.encode())
    except OSError as error:
        raise CertificatesError(f"{AUTHORITIES}: {path}: {error.strerror}") from None
    except ValueError:
        wanted = "it must hold the certificates of the trusted authorities, in PEM"
        raise CertificatesError(f"{AUTHORITIES}: {path}: there is no certificate in it; {wanted}") from None
    return text
