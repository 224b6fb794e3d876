"""One per claim handled, loop or document."""
