"""Logs, metrics and traces behind one configure(): structlog, Prometheus, OpenTelemetry."""
