"""Adapters of colocation: PostgreSQL and metrics."""
