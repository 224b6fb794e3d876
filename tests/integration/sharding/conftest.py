"""The replicas are those of all tests here; builders of ensurance's reports are those of its unit tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "ensurance"))
