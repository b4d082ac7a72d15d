"""The small results folder of the tests of the store serves here too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "store"))
