"""Rows in PostgreSQL, and metrics."""
