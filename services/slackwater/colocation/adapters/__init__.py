"""The ports of colocation made real: PostgreSQL, and the twin in memory that tests use."""
