"""Papers that a site's own authority has stamped: files that somebody renews, and that are read again then.

Intuition: whoever has a passport office in town need not stamp its own. The porter looks into the tray once a minute;
new papers are shown from then on, and papers that cannot be read are left in the tray while the old ones still do.
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

from subord.runtime.security.tls import Certificates
from subord.sealing import keyfile
from subord.sealing.keys import KeyringError

logger = logging.getLogger("subord")

SITE = "site"  # what both sides go by in the greeting
LOOK_S = 60.0
PEM_BYTES_MAX = 1 << 20
CERTIFICATE = "node.certificate"  # the keys of the configuration, for complaints
METRICS_CERTIFICATE = "node.metrics_certificate"
AUTHORITIES = "node.authorities"
PEM = "PEM file"
WANTED = "it must hold a private key and then its certificate, in PEM"


class CertificatesError(Exception):
    """Papers that cannot be used. One sentence for the operator."""


class SiteCertificates:
    """`certificate`: PEM file with our private key and our certificate, then those between it and the authority;
    `authorities`: PEM file of whose stamps we trust, "" for none."""

    def __init__(
        self, certificate: str, authorities: str = "", address: str = "", *, setting: str = CERTIFICATE
    ) -> None:
        """`address`: what they must be for; "" for anything. `setting`: the key of the configuration that named
        `certificate`. Raises PapersError when they are unusable now."""
        self._setting = setting
        self._address = address
        self._certificate = certificate
        self._authorities = authorities
        self._seen: tuple[int, ...] = ()
        self.expires_at = 0.0
        """Seconds since the epoch."""
        self.issue()

    def issue(self) -> dict[str, Certificates]:
        """As the files are now. Raises PapersError."""
        seen = self._stamps()
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

    def _stamps(self) -> tuple[int, ...]:
        """When the files were changed; 0: not there just now."""
        found = []
        for path in filter(None, (self._certificate, self._authorities)):
            try:
                found.append(os.stat(path).st_mtime_ns)
            except OSError:
                found.append(0)
        return tuple(found)

    async def renew_forever(self, renew: Callable[[], None]) -> NoReturn:
        """`renew` calls `issue`; the files may lie on a slow disk, but they are small and local as a rule."""
        while True:
            await trio.sleep(LOOK_S)
            stamps = self._stamps()  # before reading: who writes meanwhile is read again
            if stamps == self._seen:
                continue
            shown = self.expires_at
            try:
                renew()
            except (CertificatesError, OSError) as error:  # ssl.SSLError is one
                self.expires_at = shown
                logger.error("new papers were not taken, the old ones go on: %s", error)
                self._seen = stamps  # said once
            else:
                until = datetime.fromtimestamp(self.expires_at, UTC).isoformat()
                logger.info("%s was read again: good until %s", self._certificate, until)


def _complaint(certificate: x509.Certificate, address: str) -> str:
    """What is wrong with it now; "": nothing."""
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        return f"good from {certificate.not_valid_before_utc} to {certificate.not_valid_after_utc} only"
    if not address:
        return ""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_ours = ipaddress.ip_address(address.partition("%")[0]) in names.get_values_for_type(x509.IPAddress)
    except x509.ExtensionNotFound:
        is_ours = False
    return "" if is_ours else f"it does not name the address {address} (subjectAltName)"


def _public(path: str) -> str:
    """Raises PapersError."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(PEM_BYTES_MAX)
        x509.load_pem_x509_certificates(text.encode())
    except OSError as error:
        raise CertificatesError(f"{AUTHORITIES}: {path}: {error.strerror}") from None
    except ValueError:
        wanted = "it must hold the certificates of those whom we trust, in PEM"
        raise CertificatesError(f"{AUTHORITIES}: {path}: there is no certificate in it; {wanted}") from None
    return text
