"""What one node may ask of another over a stream, and what comes of it when that fails."""

from __future__ import annotations

from typing import Literal

import msgspec

Topic = Literal["roster", "why", "status"]


class AskFailure(msgspec.Struct, frozen=True):
    """Another node gave no usable answer. `reason` goes after its address: "does not answer"."""

    reason: str
