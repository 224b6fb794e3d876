"""The schema `quota`, version by version."""
