"""Readers of trace files, one per format, and the models that are installed."""
