"""The methods of a transfer queue: short programs, which the batch system runs as the user of a job.

Each begins in some hundredths of a second: nothing is imported but what it needs to send one request.
"""

from __future__ import annotations

from typing import Final

METHODS: Final = ("start", "suspend", "resume", "terminate", "sensor")
SOCKET: Final = "--socket"
"""The option that names the socket of the agent."""
