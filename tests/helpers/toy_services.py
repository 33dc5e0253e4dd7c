"""The services of the lab, which the product does not ship: `register` adds them to the registry of this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "netns-lab" / "services"
NAMES = ("touch", "linger")


def register(patch: Callable[[object, str, object], None] = setattr) -> None:
    """Before anything else imports the names of the registry. `patch`: of a fixture that takes it back."""
    from subord import services

    patch(services, "NAMES", (*services.NAMES, *NAMES))
    patch(services, "__path__", [*services.__path__, str(FOLDER)])
