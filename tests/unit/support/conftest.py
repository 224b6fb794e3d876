"""Scenes of services are those of their unit tests."""

from __future__ import annotations

import sys
from pathlib import Path

for service in ("prediction", "colocation", "ensurance"):
    sys.path.insert(0, str(Path(__file__).parents[1] / service))
