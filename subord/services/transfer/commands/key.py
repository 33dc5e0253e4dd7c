"""`subord transfer key`: prints the certificate of this transfer host, and makes it with its key at first."""

from __future__ import annotations

import argparse
import json
import os

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.daemon import asked
from subord.client.errors import CommandError
from subord.client.text import printable
from subord.services.transfer.linking.certificate import CertificateError, ensured

SITE = "/v1/transfer/site"


def run(arguments: argparse.Namespace) -> int:
    """Raises CommandError."""
    path = arguments.file or asked(arguments, SITE)["key"]
    made = not os.path.lexists(path)
    try:
        own = ensured(path)
    except CertificateError as error:
        raise CommandError(str(error), exit_codes.CONFIGURATION) from None
    if arguments.json:
        found = {"path": path, "certificate": own.text, "fingerprint": own.fingerprint, "made": made}
        print(json.dumps({"schema_version": SCHEMA_VERSION, **found}))
        return exit_codes.OK
    print(f"# {'made' if made else 'read'}: {printable(path)}; SHA-256 {own.fingerprint}")
    print("# for the table [peer] in the plan of the other cluster:")
    print(f'certificates = ["{own.text}"]')
    return exit_codes.OK
