"""Generates docs/configuration.md from the typed configuration.

In: the fields of schema.py, their docstrings, and the timing presets. Usage:

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

from subord.config.load import RELOADABLE
from subord.config.schema import TABLES
from subord.config.validate import in_words, keys_of
from subord.core.settings import PRESETS, Timing

INTRODUCTION = """\
# Configuration

<!-- Generated from the types by `python -m subord.config.docs docs/configuration.md`; do not edit. -->

The daemon reads one TOML file: `subord run --config FILE`. The shortest one that works:

```toml
[cluster]
network = "10.0.0.0/24"
key_file = "/etc/subord/cluster.key"
```

`subord key generate` makes the key ([security](security.md)).
It is not needed on a loopback address, or with `insecure`.

- `subord config check FILE` checks a file without starting anything, and prints all settings that result.
  With `--here` it also checks key file, certificates, address and ports of this machine.
- `--set cluster.fanout=2`, an option of `subord run` and `subord config check`, sets one key and overrides the file.
  The value is TOML, or else a string, so `--set node.interface=eth0` needs no quotes.
- A mistake, such as an unknown key, stops the daemon at the start with exit code 78 and one line on standard error,
  which names the file, the line and the key. Exit code 75 means that the resolver did not answer for a name of the
  host list: try again.
- A key takes effect at a restart, unless its entry says otherwise. On SIGHUP a running daemon reads the file, the
  host list and the key ring again; the log names changes that wait for a restart. A file with a mistake changes
  nothing.
- With a changed network the daemon says goodbye on SIGHUP and starts again in the same process, with all other
  changes. The new network must contain the daemon's own address; until all nodes have it, the old and the new
  network form two trees.
- A relative path of a file that the daemon reads (host list, key, certificates, performance) starts at the directory
  of this file.
"""

CONTENTS = {
    "cluster.key_file": "on SIGHUP",
    "cluster.host_authorities": "within a minute",
    "node.metrics_certificate": "within a minute",
    "node.certificate": "within a minute",
    "node.authorities": "within a minute",
}
"""When the new contents of a file take effect, for keys whose path takes effect at a restart."""

TIMING = """\
## Timing presets

All nodes of one tree use the same preset. `_s` is seconds, `_per_s` times per second.

| duration or rate | {names} | meaning |
|---|{rules}|---|
"""


def page() -> str:
    """The whole text of docs/configuration.md."""
    parts = [INTRODUCTION]
    for table, kind in TABLES.items():
        parts += [f"\n## [{table}]\n", f"\n{_paragraph(inspect.getdoc(kind) or '')}\n"]
        parts += [_key(table, field, text) for field, text in _documented(kind)]
    return "".join([*parts, "\n", _timing()])


def docstrings_of(kind: type) -> dict[str, str]:
    """The docstrings below the fields of a class, by field name, from the source: Python does not keep them."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = _paragraph(text)
    return found


def _documented(kind: type[msgspec.Struct]) -> list[tuple[msgspec.structs.FieldInfo, str]]:
    texts = docstrings_of(kind)
    return [(field, texts[name]) for name, field in keys_of(kind).items()]


def _key(table: str, field: msgspec.structs.FieldInfo, text: str) -> str:
    words = in_words(field.type)
    name = f"{table}.{field.name}"
    effect = "; effective on SIGHUP" if name in RELOADABLE else ""
    if name in CONTENTS:
        effect = f"; new contents of the file effective {CONTENTS[name]}"
    facts = f"{words[0].upper()}{words[1:]}; {_default(field)}{effect}."
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
