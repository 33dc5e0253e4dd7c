"""What the tests of the runtime share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What the daemon's own log was told."""
    told: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    handler = Handler()
    logger = logging.getLogger("subord")
    logger.addHandler(handler)
    yield told
    logger.removeHandler(handler)
