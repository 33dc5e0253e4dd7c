"""A short attack on the seal, and attacks on faulty seals, which are found."""

from __future__ import annotations

import pytest

from subord.sealing import sealer as module
from subord.sealing.replay import Window
from tests.fuzz.envelopes import WAYS, BreachError, Recording, attack


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_datagram_of_an_attacker_is_opened(seed: int) -> None:
    counted = attack(Recording(seed), 10_000)
    assert {name.partition(": ")[0] for name in counted} == {way.__name__ for way in WAYS}
    assert {"bad_tag", "no_key", "unsealed", "replay", "stale_boot", "oversized", "too_short"} <= {
        name.partition(": ")[2] for name in counted
    }


@pytest.mark.parametrize("fault", ["no window", "no ticket", "no boot", "no tag"])
def test_a_faulty_seal_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(1)
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
        attack(recording, 100_000)
