"""The use cases of ingestion, one file per event or timer."""
