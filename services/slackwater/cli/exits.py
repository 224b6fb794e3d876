"""Exit statuses that scripts can rely on."""

from __future__ import annotations

OK = 0
ERROR = 1
"""It did not work; stderr says why in one line."""
USAGE = 2
"""The command line itself was wrong."""
FINDINGS = 3
"""It worked and found something to look at (doctor, diff)."""
INTERRUPTED = 130
"""A signal came before the end that was asked for."""
