"""The schema `kubernetes`, version by version."""
