"""Tables for the documents, printed from the types and tables of the program."""

from __future__ import annotations

import argparse
import enum
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence

import build_stories
import msgspec
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from subord import cli
from subord.api.handlers.metrics import node_registry
from subord.api.handlers.targets import MEMBERS_HEAD
from subord.client import exit_codes as codes
from subord.config.docs import docstrings_of
from subord.core import messages as message_types
from subord.core.carriage.verdicts import SENTENCES
from subord.core.state.states import NEXT, ORPHANED_BRANCH, State, Trigger

COMMENT = re.compile(r"^    (\w+)\b.*?  # (.*)$", re.MULTILINE)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def commands() -> str:
    """The commands of `subord` and their actions, with their help."""
    return table(("command", "what it does"), _commands("subord", cli.parser()))


def _commands(before: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    (sub,) = _below(parser)
    for each in sub._choices_actions:
        chosen = sub.choices[each.dest]
        words = f"{before} {each.dest}"
        if below := _below(chosen):
            if not below[0].required:
                yield f"`{words}`", each.help or ""
            yield from _commands(words, chosen)
        else:
            yield f"`{' '.join([words, *_words(chosen)])}`", each.help or ""


def _below(parser: argparse.ArgumentParser) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The arguments of a command, and the options that it needs."""
    for each in parser._actions:
        if each.option_strings and each.required:
            yield " ".join(filter(None, (each.option_strings[-1], str(each.metavar or ""))))
    for each in parser._actions:
        if not each.option_strings:
            yield f"[{each.metavar}]" if each.nargs in ("?", "*") else str(each.metavar)


def messages() -> str:
    """Number, name and fields of every message."""
    kinds = [each for each in vars(message_types).values() if _is_message(each)]
    kinds.sort(key=lambda kind: kind.__struct_config__.tag)
    rows = (
        (
            str(kind.__struct_config__.tag),
            f"`{kind.__name__}`",
            ", ".join(f"`{name}`" for name in kind.__struct_fields__),
        )
        for kind in kinds
    )
    return table(("number", "message", "fields, in the order of the wire"), rows)


def words() -> str:
    """The meaning of the lists and numbers in the messages, from the comments beside them."""
    parts = []
    for kind in (
        message_types.Wish,
        message_types.No,
        message_types.Why,
        message_types.Guidance,
        message_types.Change,
    ):
        comments = dict(COMMENT.findall(inspect.getsource(kind)))
        assert kind.__doc__ is not None
        first, _, _ = kind.__doc__.partition("\n\n")
        parts.append(f"\n`{kind.__name__}`: {' '.join(first.split())}\n\n")
        if issubclass(kind, enum.IntEnum):
            parts += [_item(f"{each.value} {each.name}", comments.get(each.name)) for each in kind]
        else:
            parts += [_item(name, comments.get(name)) for name in kind.__struct_fields__]
    return "".join(parts)[1:]


def _item(name: str, comment: str | None) -> str:
    return f"- `{name}`: {comment}\n" if comment else f"- `{name}`\n"


def _is_message(each: object) -> bool:
    return (
        isinstance(each, type)
        and issubclass(each, msgspec.Struct)
        and each.__module__ == message_types.__name__
        and isinstance(each.__struct_config__.tag, int)
    )


def states() -> str:
    """Every state of a node, with the triggers by which it is entered and left, and the orphaned branch."""
    does = docstrings_of(State)
    enters = {then: set[Trigger]() for then in State}
    for row in NEXT.values():
        for cue, then in row.items():
            enters[then].add(cue)
    rows = [
        (
            f"`{state.name.lower()}`",
            f"`{state.phase.value}`",
            state.aim.value,
            "; ".join(cue.value for cue in Trigger if cue in enters[state]) or "the start of the daemon",
            does[state.name],
            "; ".join(f"{cue.value}: `{then.name.lower()}`" for cue, then in NEXT[state].items()) or "never",
        )
        for state in State
    ]
    orphaned = ("*orphaned branch*", "`attached`, `orphan`, `leaving`", "any", *ORPHANED_BRANCH)
    return table(("state", "phase", "looks for", "entered by", "does on entry", "leaves by"), [*rows, orphaned])


def states_diagram() -> str:
    """The same as a Mermaid state diagram."""
    edges = [
        f"  {state.name.lower()} --> {then.name.lower()}: {trigger.value}"
        for state, row in NEXT.items()
        for trigger, then in row.items()
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", "  [*] --> new", *edges, "  gone --> [*]", "```", ""])


def triggers() -> str:
    """What leads from one state to the next."""
    comments = dict(COMMENT.findall(inspect.getsource(Trigger)))
    return table(("trigger", "meaning"), ((cue.value, comments[cue.name]) for cue in Trigger))


def metrics() -> str:
    """Every metric of the daemon, with labels and meaning."""
    families = list(node_registry(build_stories.scraped()).collect())
    families += text_string_to_metric_families(MEMBERS_HEAD + 'subord_member_live{address="10.0.0.1"} 1\n')
    return table(
        ("metric", "type", "labels", "meaning"),
        (
            (f"`{_name(each)}`", each.type, _labels(each), each.documentation)
            for each in families
            if each.name.startswith("subord_")
        ),
    )


def _name(family: Metric) -> str:
    """As in Prometheus: a counter ends in `_total`, an info in `_info`."""
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _labels(family: Metric) -> str:
    names = dict.fromkeys(name for sample in family.samples for name in sample.labels if name != "le")
    return ", ".join(f"`{name}`" for name in names)


def exit_codes() -> str:
    """The exit codes of all commands."""
    return table(("code", "meaning"), ((str(code), meaning) for code, meaning in codes.MEANINGS.items()))


def refused_orders() -> str:
    """The words of refused orders."""
    rows = (f"| `{word}` | {text} |" for word, text in SENTENCES.items())
    return "\n".join(["| word | meaning |", "|---|---|", *rows]) + "\n"
