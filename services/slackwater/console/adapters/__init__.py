"""The ports made real: PostgreSQL, an in-memory twin for tests, and the in-process feed."""
