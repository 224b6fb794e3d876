"""Which metrics may carry a waterline, and what each can do: declared once, found by name."""
