"""Runs the command `subord` as `python -m subord`."""

import sys

from subord.cli import main

sys.exit(main())
