"""Messages and notices as lines of text, for traces and stories. Routine (echoes, beats without news) is empty."""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.events import Healed, LeaderLost, Notice, PlaceChanged, Refused, SubordinateLost
from subord.core.messages import (
    Accept,
    Advice,
    Back,
    Beat,
    Echo,
    Goodbye,
    Guide,
    Message,
    Propose,
    Refuse,
    Versions,
)


def of_message(message: Message) -> str:  # noqa: PLR0911 - one return per message
    """A message as text; empty: routine."""
    match message:
        case Propose():
            return f"propose {message.wish.name.lower()}"
        case Accept():
            return f"accept, path {_list(message.guidance.path)}"
        case Refuse():
            return f"refuse {message.no.name.lower()}, hints {_list(message.hints)}"
        case Advice():
            return f"advice: root {message.root}, hints {_list(message.hints)}"
        case Back():
            return f"back: {message.home}"
        case Beat():
            return _beat(message)
        case Echo():
            return ""
        case Guide():
            return f"guide, path {_list(message.guidance.path)}" + (", adrift" if message.guidance.adrift else "")
        case Goodbye():
            to = f", alternates {_list(message.alternates)}" if message.alternates else ""
            return f"goodbye {message.why.name.lower()}{to}"
        case Versions():
            return f"versions {_list(message.spoken)}"
        case _:
            return type(message).__name__.lower()


def of_notice(notice: Notice) -> str:
    """A notice as text; empty: routine."""
    match notice:
        case PlaceChanged():
            where = "root" if notice.leader is None else f"{notice.place.value} of {notice.leader}"
            return f"now {where}: {notice.reason}"
        case LeaderLost():
            return f"lost the leader {notice.leader}: {notice.cause}"
        case SubordinateLost():
            return f"lost the subordinate {notice.position}: {notice.cause}"
        case Healed():
            return f"healed after {notice.after_s:.3f} s"
        case Refused():
            return f"refused with {notice.address} (by {notice.by}): {notice.reason}"
        case _:
            return ""


def _beat(beat: Beat) -> str:
    parts = [f"news of {_list(change.position for change in beat.changes)}"] if beat.changes else []
    parts += [f"gone {_list(beat.gone)}"] if beat.gone else []
    return f"beat, {', '.join(parts)}" if parts else ""


def _list(positions: Iterable[int]) -> str:
    return " ".join(map(str, positions)) or "none"
