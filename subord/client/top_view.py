"""The screen of `subord top`: orders, shares, problems, changes, the largest leaders, from the last answers.

Pure; cli/top.py asks and prints. Each column gives up its last lines if there is not enough room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from subord.client import drawing, problem_lines
from subord.client.change_line import change_line
from subord.client.daemon import Document
from subord.client.drawing import NOTE_STYLE, Line
from subord.client.text import age, count, printable

MINUTES: Final = 30
LEADERS_MAX: Final = 5
ORDERS_SHOWN: Final = 3
CLASSES_SHOWN: Final = 6
BAR_MAX: Final = 30
BARS: Final = " ▁▂▃▄▅▆▇█"
BARS_ASCII: Final = " .:-=+*#@"
HEAD_STYLE: Final = "bold cyan"


class Answers(NamedTuple):
    """The last answers, None: none yet; and the lines about questions without an answer. `orders`: to nodes, at the
    asked node. `shares`: of the classes of work, as the root decides them."""

    tree: Document | None
    errors: Document | None
    changes: Document | None
    errors_ago_s: float
    failures: Sequence[str]
    orders: Document | None = None
    shares: Document | None = None


def page(answers: Answers, height: int, wall: float, *, is_ascii: bool = False) -> list[Line]:
    """At most `height` lines; `wall` is the time, in seconds since 1970."""
    tree = answers.tree
    lines = [] if tree is None else drawing.heading(drawing.summary(tree), tree["note"])
    lines += [[(printable(failure), "bold red")] for failure in answers.failures]
    lines += [] if answers.orders is None else _orders(answers.orders)
    lines += [] if answers.shares is None else _shares(answers.shares)
    columns = [_problems(answers), _changes(answers, wall, is_ascii=is_ascii), _leaders(answers, is_ascii=is_ascii)]
    for column, room in zip(columns, _rooms(height - len(lines), [len(column) for column in columns]), strict=True):
        if room > 1:
            lines += [[], *column[: room - 1]]
    return lines[:height]


def _orders(found: Document) -> list[Line]:
    """One line for each order under way, at most ORDERS_SHOWN; without any, one line about the last that ended."""
    under_way, ended = found["orders"], found["ended"]
    lines: list[Line] = [
        [(f"order {_coverage(each)}; ends within {age(each['left_s'])}", "")] for each in under_way[:ORDERS_SHOWN]
    ]
    if len(under_way) > ORDERS_SHOWN:
        lines.append([(f"and {len(under_way) - ORDERS_SHOWN} more orders under way", "dim")])
    if not under_way:
        last = f"; the last, {age(ended[0]['since_s'])} ago: {_coverage(ended[0])}" if ended else ""
        lines.append([(f"no order under way{last}", "dim")])
    return lines


def _coverage(order: Document) -> str:
    """`ping from 10.0.0.5: 3 of 11 answered, 1 missing`."""
    source = "" if order["own"] else f" from {printable(order['issuer'] or '?')}"
    missing = f", {order['missing']} missing" if order["missing"] else ""
    return f"{printable(order['service'])}{source}: {order['told']} of {order['asked']} answered{missing}"


def _shares(found: Document) -> list[Line]:
    """One line, if an operator has ever set shares."""
    if found["version"] is None:
        return []
    if not found["classes"]:
        return [[("shares are off", "dim")]]
    if found["address"] is None:
        return [[("shares: the root has not told its figures", NOTE_STYLE)]]
    shown = [_class(each) for each in found["classes"][:CLASSES_SHOWN]]
    more = len(found["classes"]) - len(shown)
    nodes = f"{found['told']} of {count(found['asked'], 'node')} in the decisions"
    text = ", ".join([*shown, *([f"{more} more classes"] if more else [])])
    return [[(f"shares: {text}; ", ""), (nodes, "" if found["complete"] else NOTE_STYLE)]]


def _class(share: Document) -> str:
    """`batch uses 22.6 of 30 % (needy)`."""
    used = "?" if share["used"] is None else f"{share['used']:.3g}"
    needy = " (needy)" if share["needy"] else ""
    return f"{printable(share['name'])} uses {used} of {share['wanted']:.3g} %{needy}"


def _rooms(height: int, wanted: list[int]) -> list[int]:
    """Lines for each column, with an empty one before it; unused lines pass to the next column."""
    rooms = []
    for number, lines in enumerate(wanted):
        share = height // (len(wanted) - number)
        rooms.append(min(lines + 1, max(share, 0)))
        height -= rooms[-1]
    return rooms


def _problems(answers: Answers) -> list[Line]:
    if answers.errors is None:
        return [[("problems: not asked yet", HEAD_STYLE)]]
    head: Line = [
        (f"{problem_lines.summary(answers.errors)}", HEAD_STYLE),
        (f"  {age(answers.errors_ago_s)} ago", "dim"),
    ]
    note = answers.errors["note"]
    if note and (answers.tree is None or not answers.tree["note"]):
        head.append((f"  incomplete: {printable(note)}", NOTE_STYLE))
    return [head, *([("  ", ""), *line] for line in problem_lines.problem_list(answers.errors))]


def _changes(answers: Answers, wall: float, *, is_ascii: bool) -> list[Line]:
    changes = [] if answers.changes is None else answers.changes["changes"]
    ago = [int((wall - each["wall"]) // 60) for each in changes]
    by_minute = Counter(minute for minute in ago if minute < MINUTES)
    bars = spark([by_minute[minute] for minute in reversed(range(MINUTES))], BARS_ASCII if is_ascii else BARS)
    text = f"{count(by_minute.total(), 'change')} in {MINUTES} min"
    return [
        [(text, HEAD_STYLE), (f"  |{bars}|", "")],
        *([("  ", ""), *change_line(each)] for each in reversed(changes)),
    ]


def spark(numbers: Sequence[int], bars: str = BARS) -> str:
    """One character per number, the highest for the largest; every number above zero is visible."""
    top, steps = max([*numbers, 1]), len(bars) - 1
    return "".join(bars[0 if number <= 0 else max(1, round(number * steps / top))] for number in numbers)


def _leaders(answers: Answers, *, is_ascii: bool) -> list[Line]:
    """The leaders with the most subordinates."""
    rows = [] if answers.tree is None else answers.tree["rows"]
    led = Counter(row["leader"] for row in rows if row["leader"] is not None and row["standing"] in {"live", "held"})
    first = sorted(led.items(), key=lambda pair: -pair[1])[:LEADERS_MAX]  # equals stay in the order of the tree
    widths = max((len(address) for address, _ in first), default=0), max((len(str(n)) for _, n in first), default=0)
    scale = max([1.0, *(number / BAR_MAX for _, number in first)])
    lines: list[Line] = [[("most subordinates", HEAD_STYLE)]] if first else []
    for address, number in first:
        bar = ("#" if is_ascii else "█") * max(1, int(number / scale))
        lines.append([(f"  {address:{widths[0]}}  {number:{widths[1]}}  ", ""), (bar, "green")])
    return lines
