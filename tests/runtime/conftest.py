"""Fixtures of the tests of the runtime."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """The messages that the logger of the daemon received, at its default level, whatever a test before has set."""
    messages: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Handler()
    logger = logging.getLogger("subord")
    before = logger.level
    logger.setLevel(logging.NOTSET)
    logger.addHandler(handler)
    yield messages
    logger.setLevel(before)
    logger.removeHandler(handler)
