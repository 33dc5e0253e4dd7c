"""`python -m subord` is the same as `subord`."""

import sys

from subord.cli import main

sys.exit(main())
