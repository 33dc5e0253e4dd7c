"""A cluster that divides its nodes among classes of work, for the page: half an hour of made-up figures."""

from __future__ import annotations

from math import sin
from typing import Any

from subord.api.models.coverage import MissingDocument
from subord.api.models.shares import ShareDocument, SharesCurveDocument, SharesPastDocument

STALE = MissingDocument(cause="stale", text="is stale", count=4, addresses=("10.0.0.7",))
FURTHER = MissingDocument(cause="left out further down", text="by a leader", count=1, addresses=())


def shares_document(
    wanted: dict[str, float] | None = None,
    *,
    moments: int = 300,
    every_s: float = 5.0,
    missing: tuple[MissingDocument, ...] = (),
    **other: Any,
) -> SharesPastDocument:
    """In force, unless `other` says something else. The second class has work left, and uses less than its share."""
    wanted = {"web": 60.0, "batch": 30.0, "test": 10.0} if wanted is None else wanted
    ages = tuple(every_s * each for each in reversed(range(moments)))
    largest = sorted(sorted(wanted, key=lambda name: -wanted[name])[:6], key=list(wanted).index)
    lines = {name: tuple(zip(*(_at(name, wanted, age) for age in ages), strict=True)) for name in largest}
    left = sum(each.count for each in missing)
    fields: dict[str, Any] = {
        "asked": 500,
        "told": 500 - left,
        "complete": not left,
        "missing": missing,
        "oldest_ms": 1700.0,
        "version": 7,
        "round_s": 2.0,
        "address": "10.0.0.1",
        "undecided": None,
        "classes": tuple(
            ShareDocument(
                name=name, wanted=share, got=_at(name, wanted, 0)[1], used=_at(name, wanted, 0)[2], needy=at == 1
            )
            for at, (name, share) in enumerate(wanted.items())
        ),
        "every_s": every_s,
        "ages_s": ages,
        "nodes_told": tuple(480 if age > 1200 else 500 - left for age in ages),
        "nodes_asked": (500,) * moments,
        "curves": tuple(
            SharesCurveDocument(name=name, wanted=wanted_, got=got, used=used)
            for name, (wanted_, got, used) in lines.items()
        )
        if moments
        else (),
    }
    return SharesPastDocument(**fields | other)


def _at(name: str, wanted: dict[str, float], age_s: float) -> tuple[float, float, float]:
    """Wanted, got and used. Until 15 minutes ago all shares were equal."""
    number = list(wanted).index(name)
    share = wanted[name] if age_s < 900 else round(100 / len(wanted), 3)
    got = share * (1 + 0.05 * sin(age_s / 40 + number))
    used = got * (0.7 if number == 1 else 0.95) + 0.8 * sin(age_s / 25 + 2 * number)
    return share, round(got, 2), round(used, 2)
