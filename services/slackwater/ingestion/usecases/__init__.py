"""What ingestion does, one file per event or occasion."""
