"""Services for tests, which the product does not ship: `register` adds them to the registry of this process."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = ("touch",)


def register() -> None:
    """Before anything imports the registry's names."""
    from subord import services

    if "touch" not in services.NAMES:
        services.NAMES = (*services.NAMES, *NAMES)  # type: ignore[misc]
        services.__path__.append(str(FOLDER))
