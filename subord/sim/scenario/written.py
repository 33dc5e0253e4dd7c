"""A scenario as the text of a file: the reverse of `definition.read`."""

from __future__ import annotations

import msgspec

from subord.sim.scenario.definition import Scenario


def write(scenario: Scenario) -> str:
    """The text of a file that `read` turns into the same scenario."""
    document = msgspec.to_builtins(scenario)
    cluster, steps = document.pop("cluster"), document.pop("steps")
    lines = [f"{key} = {_toml(value)}" for key, value in document.items()]
    lines += [f"cluster = {_toml(cluster)}", "steps = [", *(f"  {_toml(step)}," for step in steps), "]"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """A value as TOML, tables inline. JSON's strings are a subset of TOML's basic strings."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return msgspec.json.encode(value).decode()
