"""Ports made real: the API server over HTTP, PostgreSQL rows, metrics."""
