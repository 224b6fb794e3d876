"""The ports of prediction made real: PostgreSQL, and the twin in memory that tests use."""
