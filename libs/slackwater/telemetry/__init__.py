"""Logs, metrics and traces behind one configure(): structlog, Prometheus, OpenTelemetry.

Import what you need from the module that has it; importing this package alone loads nothing.
"""
