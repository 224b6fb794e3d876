"""Ports made real: rows in PostgreSQL, metrics."""
