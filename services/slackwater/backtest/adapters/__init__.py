"""The models that are installed."""
