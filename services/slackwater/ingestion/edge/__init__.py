"""Where ingestion meets the bus."""
