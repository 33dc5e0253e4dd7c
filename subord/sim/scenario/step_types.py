"""The types of the keys of steps, and the struct from which all steps derive."""

from __future__ import annotations

from typing import Annotated

import msgspec

SELECTOR_MAX = 20_000
LIKE = f'a selector such as "1-4,9" or "level 2", at most {SELECTOR_MAX} characters'
Selector = Annotated[str, msgspec.Meta(min_length=1, max_length=SELECTOR_MAX, extra={"words": LIKE})]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class StepBase(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True, omit_defaults=True
):
    """One step. A step begins when the previous one ends; only steps that document it take time."""
