"""Operators beside `ann`, who signs what a test types."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from fake_operators import sign

from subord.client.orders import signing


def sign_as(principal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another operator types."""
    monkeypatch.setattr(signing, "sign", lambda content, namespace, _: sign(content, namespace, principal))


def publish_before(publish: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another operator publishes before the command signs."""

    def slow(content: bytes, namespace: str, _: Any) -> bytes:
        publish()
        return sign(content, namespace)

    monkeypatch.setattr(signing, "sign", slow)


def publish_after(publish: Callable[[], object], monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Another operator publishes once the command has given its order. `module`: with the function that gives it."""
    given = module.order

    def late(*words: Any) -> Any:
        found = given(*words)
        publish()
        return found

    monkeypatch.setattr(module, "order", late)
