"""Pure rules of ingestion: what is valid, what is missing, who is alive, how windows are made."""
