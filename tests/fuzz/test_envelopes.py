"""The postman's day, shortened; and that he would be caught."""

from __future__ import annotations

import pytest

from subord.sealing import sealer as module
from subord.sealing.replay import Window
from tests.fuzz.envelopes import WAYS, BreachError, Town, besiege


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_comes_of_any_envelope(seed: int) -> None:
    counted = besiege(Town(seed), 10_000)
    assert {name.partition(": ")[0] for name in counted} == {way.__name__ for way in WAYS}
    assert {"bad_tag", "no_key", "unsealed", "replay", "stale_boot", "oversized", "too_short"} <= {
        name.partition(": ")[2] for name in counted
    }


@pytest.mark.parametrize("fault", ["no window", "no ticket", "no boot", "no tag"])
def test_a_seal_with_a_hole_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town(1)
    if fault == "no window":
        monkeypatch.setattr(Window, "accept", lambda *_: True)
    elif fault == "no ticket":
        monkeypatch.setattr(module.hmac, "compare_digest", lambda *_: True)
    elif fault == "no boot":
        monkeypatch.setattr(
            module.Sealer,
            "_open_older",
            lambda self, datagram, *_: self._accept(datagram, self._peer(datagram.source)),
        )
    else:
        monkeypatch.setattr(module.Sealer, "_decrypt", staticmethod(lambda data, *_: data[48:]))
    with pytest.raises(BreachError):
        besiege(town, 100_000)
