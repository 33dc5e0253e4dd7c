"""How many jobs have crossed in this life, by what came of them. Pure.

Inputs are changes of records; outputs are counts, each job once for each that is true of it. Invariant: the memory is
of jobs that have records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from subord.services.transfer.exchange import Stage
from subord.services.transfer.jobs import Key
from subord.services.transfer.states import AwayRecord, HomeRecord, HomeState

LEFT: Final = "left"
TAKEN: Final = "taken"
ENDED: Final = "ended"
RETURNED: Final = "returned"
UNKNOWN: Final = "unknown"
HOME: Final = {
    HomeState.ABROAD: LEFT,
    HomeState.ENDED: ENDED,
    HomeState.RETURNING: RETURNED,
    HomeState.UNKNOWN: UNKNOWN,
}
AWAY: Final = {Stage.TAKEN: TAKEN, Stage.ENDED: ENDED, Stage.GONE: RETURNED, Stage.UNKNOWN: UNKNOWN}


class Counts:
    """`home`: of jobs of this cluster. `away`: of those of the other one."""

    def __init__(self) -> None:
        self.home = Counter[str]()
        self.away = Counter[str]()
        self._seen = dict[tuple[str, Key], set[str]]()

    def note(
        self, of_home: Mapping[Key, HomeRecord | None], of_away: Mapping[Key, AwayRecord | None]
    ) -> list[HomeRecord]:
        """What is about to be written; jobs of this cluster whose end was not known before."""
        ended = list[HomeRecord]()
        for key, leaving in of_home.items():
            word = None if leaving is None else "" if leaving.brings else HOME.get(leaving.state, "")
            if self._count("home", self.home, key, word) and leaving is not None and leaving.state.is_final:
                ended.append(leaving)
        for key, coming in of_away.items():
            self._count("away", self.away, key, None if coming is None else AWAY.get(coming.stage, ""))
        return ended

    def _count(self, side: str, counts: Counter[str], key: Key, word: str | None) -> bool:
        """Whether it is counted. `word`: "": it is nothing that is. None: the record is deleted."""
        if word is None:
            self._seen.pop((side, key), None)
            return False
        seen = self._seen.setdefault((side, key), set())
        if not word or word in seen:
            return False
        seen.add(word)
        counts[word] += 1
        return True
