"""The ledger of ingestion: on PostgreSQL, and in memory for tests."""
