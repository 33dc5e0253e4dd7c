"""What a node has to say, and what the issuer makes of it; the API needs both as well (api/handlers/problems.py)."""

from __future__ import annotations

from subord.api.handlers import problems
from subord.services.contract import Service

SERVICE = Service(problems.answer, problems.document, older=problems.OLDER_QUESTION)
