"""The ports made real: PostgreSQL, its twin in memory, Prometheus."""
