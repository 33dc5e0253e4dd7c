"""Words of the options of `subord account`, without imports, so that every command starts fast."""

from __future__ import annotations

from typing import Final

BY: Final = ("user", "group", "account", "queue", "cluster", "host", "day")
KINDS: Final = ("job", "command")
"""The kinds of records in the ledger."""
CONFIG: Final = "/etc/subord/subord.toml"
