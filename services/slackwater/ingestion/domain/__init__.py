"""Pure rules of ingestion: validation, missing reports, liveness, windowing."""
