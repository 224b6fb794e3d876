"""Translates events into calls of use cases, and their results into settlements."""
