"""What the issuer makes of the answers: what `subord touch` does."""

from __future__ import annotations

from subord.services.touch.core import document  # type: ignore[import-not-found]

from subord.services.contract import Service

SERVICE = Service(None, document)
