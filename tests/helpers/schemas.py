"""Whether what commands print fits its schema. A schema is compiled once: that takes 15 ms."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema

SCHEMAS = Path(__file__).parents[2] / "docs/schemas"


def fits(name: str, document: dict[str, Any]) -> None:
    """Raises fastjsonschema.JsonSchemaException."""
    _validator(name)(document)


@cache
def _validator(name: str) -> Callable[[dict[str, Any]], object]:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    found: Callable[[dict[str, Any]], object] = fastjsonschema.compile(
        {**schema, "$schema": "http://json-schema.org/draft-07/schema#"}
    )
    return found
