"""Translates events and requests into calls of use cases."""
