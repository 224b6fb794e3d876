"""The registry of metrics that may carry a waterline, with their capabilities, found by name."""
