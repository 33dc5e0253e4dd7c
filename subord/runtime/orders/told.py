"""What the agent of a node tells of each lasting document that it follows beside the daemon: a word, and why.

Each service has a struct of its own with more, and more words.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.causes import WORD_CHARS_MAX

NONE: Final = "none"
"""There is no document."""
OFF: Final = "off"
STARTING: Final = "starting"
OTHER_NODE: Final = "other node"
NO_AGENT: Final = "no agent"
REFUSED: Final = "refused"
FAILED: Final = "failed"
DETAIL_CHARS_MAX: Final = 400


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """`word`: one of those above, or of the service. `detail`: why, "": the word says it. `version`: of the
    document; 0: there is none."""

    word: Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
    detail: Annotated[str, msgspec.Meta(max_length=DETAIL_CHARS_MAX)] = ""
    version: int = 0
