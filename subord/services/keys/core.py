"""The ring of a node, and the rings of all; the API needs both as well (api/handlers/keys.py)."""

from __future__ import annotations

from subord.api.handlers import keys
from subord.services.contract import Service

SERVICE = Service(keys.answer, keys.document, refusal=keys.refusal, older=keys.OLDER_QUESTION)
