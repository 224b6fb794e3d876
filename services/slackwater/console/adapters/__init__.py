"""Adapters of the ports: PostgreSQL, and an in-memory version for tests."""
