"""The description of the API as committed. tools/checks.py holds it to the code; making it takes each lane seconds."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "contracts" / "openapi" / "slackwater.json"


@cache
def described() -> dict[str, Any]:
    """To be read only."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found
