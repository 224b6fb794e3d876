"""Values in messages: enough of one to find it again, whatever its size."""

from __future__ import annotations

from reprlib import Repr
from typing import Any

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxdict = 3, 8, 8, 8
_SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 200, 80, 200


def shown(value: Any) -> str:
    """Returns the repr of a value, cut in length, items and depth."""
    return _SHORT.repr(value)
