"""Logs, metrics and traces behind one configure(): structlog, Prometheus, OpenTelemetry.

Import from the modules; importing the package itself loads nothing. Which metrics a service has is its own.
"""
