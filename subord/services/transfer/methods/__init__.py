"""The methods of a transfer queue: short programs, which the batch system runs as the user of a job.

Each begins in some hundredths of a second: nothing is imported but what it needs to send one request.
"""

from __future__ import annotations

from typing import Final

from subord import services

METHODS: Final = tuple(word for service, word in services.METHODS if service == "transfer")
REST: Final = {"start": "WORD ...", "terminate": "[PID]", "sensor": "NAME"}
"""What follows the options of a method."""
SOCKET: Final = "--socket"
"""The option that names the socket of the agent."""
