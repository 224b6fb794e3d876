"""The schema `migration`, version by version."""
