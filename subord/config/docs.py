"""docs/configuration.md, written from the types: a page that cannot contradict the program.

Intuition: the label on a drawer is printed by whoever fills the drawer. Each key's text is the docstring below
it in subord/config/schema.py. To write the page anew:

    python -m subord.config.docs docs/configuration.md
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from pathlib import Path

import msgspec

from subord.config.schema import RELOADABLE, TABLES
from subord.config.validate import in_words, keys_of
from subord.core.state.settings import PRESETS, Timing

INTRODUCTION = """\
# Configuration

<!-- Generated from the types by `python -m subord.config.docs docs/configuration.md`; do not edit. -->

A daemon reads one TOML file, `subord run --config FILE`. The shortest one that works:

```toml
[cluster]
network = "10.0.0.0/24"
key_file = "/etc/subord/cluster.key"
```

The key is made by `subord key generate` ([security](security.md)).
On a loopback address, or with `insecure`, none is needed.

- `subord config check FILE` says whether a file is right, without starting anything, and shows all
  settings that follow from it.
- `subord run --set cluster.fanout=2` sets one key and wins over the file, also for `subord config check`.
  The value is TOML; what is not TOML counts as a string, so `--set node.interface=eth0` needs no quotes.
- A mistake stops the daemon before it has done anything: one line on standard error names the file, the
  line and the key, and the exit code is 78. Unknown keys are mistakes. While the resolver does not answer for a
  name of the host list the exit code is 75: try again.
- SIGHUP makes a running daemon read the file again, and the host list with it. It takes over
  {reloadable};
  any other change waits for a restart, and a file with a mistake changes nothing. Both are said in the log.
- Another network means other positions: on SIGHUP the daemon says goodbye as on SIGTERM, and starts again in the
  same process with everything that changed. Where only comments or the spelling changed, nothing happens. A network
  that lacks the daemon's own address is a mistake.
"""

TIMING = """\
## Timing presets

All nodes of one tree use the same preset. Names end in their unit: `_s` is seconds, `_per_s` is times per second.

| duration or rate | {names} | meaning |
|---|{rules}|---|
"""


def page() -> str:
    """The whole text of docs/configuration.md."""
    *names, last = [f"`{name}`" for name in RELOADABLE]
    reloadable = f"{', '.join(names)} and {last}"
    parts = [INTRODUCTION.replace("{reloadable}", reloadable)]
    for table, kind in TABLES.items():
        parts += [f"\n## [{table}]\n", f"\n{_paragraph(inspect.getdoc(kind) or '')}\n"]
        parts += [_key(table, field, text) for field, text in _documented(kind)]
    return "".join([*parts, "\n", _timing()])


def docstrings_of(kind: type) -> dict[str, str]:
    """The string below each field of a class, by field name. Python itself forgets them."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[field.target.id] = _paragraph(text)
    return found


def _documented(kind: type[msgspec.Struct]) -> list[tuple[msgspec.structs.FieldInfo, str]]:
    texts = docstrings_of(kind)
    return [(field, texts[name]) for name, field in keys_of(kind).items()]


def _key(table: str, field: msgspec.structs.FieldInfo, text: str) -> str:
    words = in_words(field.type)
    restart = "on SIGHUP" if f"{table}.{field.name}" in RELOADABLE else "at a restart"
    facts = f"{words[0].upper()}{words[1:]}; {_default(field)}. Takes effect {restart}."
    return f"\n### `{field.name}`\n\n{facts}\n\n{text}\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    return "optional" if field.default is None else f"default `{json.dumps(field.default)}`"


def _timing() -> str:
    names = " | ".join(f"`{name}`" for name in PRESETS)
    rows = [f"| `{field.name}` | {_values(field.name)} | {text} |\n" for field, text in _documented(Timing)]
    meaning = _paragraph(Timing.leader_silence_s.__doc__ or "")
    silence = f"| `leader_silence_s` | {_values('leader_silence_s')} | {meaning} |\n"
    header = TIMING.replace("{names}", names).replace("{rules}", "|".join("---:" for _ in PRESETS))
    return "".join([header, *rows, silence])


def _values(name: str) -> str:
    return " | ".join(f"{getattr(timing, name):g}" for timing in PRESETS.values())


def _paragraph(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m subord.config.docs docs/configuration.md")
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
