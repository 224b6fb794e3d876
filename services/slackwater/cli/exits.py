"""Exit statuses that scripts can rely on."""

from __future__ import annotations

OK = 0
ERROR = 1
"""The command failed; stderr has the reason in one line."""
USAGE = 2
"""The command line was wrong."""
FINDINGS = 3
"""The command worked and reports findings (doctor, diff)."""
INTERRUPTED = 130
"""A signal stopped the command before its requested end."""
