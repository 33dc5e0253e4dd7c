"""The lab's modules are scripts beside the package, so the tests show Python the way to them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))
