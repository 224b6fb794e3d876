"""Event consumers and REST routes of ingestion."""
