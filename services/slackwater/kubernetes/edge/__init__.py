"""Translates events and states into calls of use cases, and back."""
