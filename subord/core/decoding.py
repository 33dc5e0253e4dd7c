"""What a decoder may raise for bytes from outside.

Deeply nested MessagePack raises RecursionError, and a number beyond 64 bits OverflowError; neither is an error of
msgspec. Invariant: code that decodes what another node has sent catches all of UNREADABLE.
"""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError)
