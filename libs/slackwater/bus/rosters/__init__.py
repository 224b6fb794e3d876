"""Rosters: reports are published by reference to them, and joined with them when they are read."""
