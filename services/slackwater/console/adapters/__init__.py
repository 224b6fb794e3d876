"""The ports made real: PostgreSQL, and an in-memory twin for tests."""
