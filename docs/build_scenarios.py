"""The parts of docs/scenarios.md that are printed from the types of a scenario."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from build_tables import COMMENT, table

from subord.sim.scenario import definition, validate
from subord.sim.scenario.definition import Cluster, Scenario
from subord.sim.scenario.step_types import Seconds

EXAMPLE = Path(__file__).resolve().parents[1] / "netns-lab" / "scenarios" / "root_and_successors_die.toml"
SIMULATED = " Simulator only."
WORDS = (  # of complaints -> of the tables
    (f"a list of at least 1, each {definition.LIKE}", "non-empty list of [selectors](#selectors)"),
    (definition.LIKE, "[selector](#selectors)"),
    ("a list of at least 1, each ", "non-empty list of "),
    ("a list of ", ""),
    ("a number above 0 and at most ", "above 0, at most "),
    ("a number from ", ""),
    ("a whole number from ", "integer, "),
    (" upwards", " or more"),
    ("a text", "text"),
    ("a table such as", "table such as"),
    ('" or "', '", "'),
)


def example() -> str:
    """A file that ships with the lab."""
    return f"```toml\n{EXAMPLE.read_text(encoding='utf-8')}```\n"


def keys() -> str:
    """The keys of a file, then those of its cluster."""
    rows = [*_rows(Scenario, ""), *_rows(Cluster, "cluster.")]
    return table(("key", "value", "default", "meaning"), rows)


def _rows(kind: type[msgspec.Struct], before: str) -> Iterator[tuple[str, str, str, str]]:
    comments = _comments(kind)
    for name, field in validate.fields_of(kind).items():
        yield f"`{before}{name}`", _value(field), _default(field), comments.get(name, "")


def steps() -> str:
    """The steps that the lab plays, from their docstrings and fields."""
    return _steps(lambda text: SIMULATED not in text)


def simulated() -> str:
    """The steps that only the simulator plays."""
    return _steps(lambda text: SIMULATED in text)


def _steps(is_chosen: Callable[[str], bool]) -> str:
    texts = {name: " ".join((kind.__doc__ or "").split()) for name, kind in definition.STEPS.items()}
    rows = (
        (f"`{name}`", text.replace(SIMULATED, ""), _keys(definition.STEPS[name]))
        for name, text in texts.items()
        if is_chosen(text)
    )
    return table(("`do`", "effect", "keys"), rows)


def _keys(kind: type[msgspec.Struct]) -> str:
    comments = _comments(kind)
    lines = []
    for name, field in validate.fields_of(kind).items():
        more = f" ({comments[name]})" if name in comments else ""
        value = "" if field.type == Seconds else _value(field)
        default = "" if field.required else _default(field)
        facts = "; ".join(filter(None, (value, default)))
        lines.append(f"`{name}`: {facts}{more}" if facts else f"`{name}`{more}")
    return "<br>".join(lines) or "none"


def _comments(kind: type[msgspec.Struct]) -> dict[str, str]:
    return dict(COMMENT.findall(inspect.getsource(kind)))


def _value(field: msgspec.structs.FieldInfo) -> str:
    words = validate.in_words(field.type)
    for long, short in WORDS:
        words = words.replace(long, short)
    return words


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default in (None, 0, "") and field.default is not False and not isinstance(field.default, float):
        return "optional"
    return f"`{json.dumps(field.default)}`"


def limits() -> str:
    """The bounds of a scenario."""
    nodes, steps, product = (
        f"{number:,}" for number in (definition.NODES_MAX, definition.STEPS_MAX, definition.NODES_TIMES_STEPS_MAX)
    )
    lines = (
        f"a file has at most {definition.FILE_BYTES_MAX:,} bytes;",
        f"a scenario has at most {nodes} nodes and {steps} steps, and nodes times steps are at most {product};",
        f"one `babble` is at most {definition.BABBLE_MAX:,} datagrams: sources times targets times `per_s * for_s`;",
        f"a selector has at most {definition.SELECTOR_MAX:,} characters;",
        f"a key of the file has at most {validate.KEY_PARTS_MAX} parts between dots.",
    )
    return "".join(f"- {line}\n" for line in lines)


PARTS: dict[str, Callable[[], str]] = {
    "scenario-example": example,
    "scenario-keys": keys,
    "scenario-steps": steps,
    "scenario-simulated": simulated,
    "scenario-limits": limits,
}
