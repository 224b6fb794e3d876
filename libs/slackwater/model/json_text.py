"""Parses JSON that another program or user has written, and whose size is already bounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def parse_json_text(text: str | bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Returns the value of a text, with each object as `object_hook` returns it. Raises ValueError for what is not
    JSON, and for a text that is nested too deeply, for which the parser raises RecursionError: callers that skip
    damaged texts would not catch it.
    """
    try:
        return json.loads(text, object_hook=object_hook)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
