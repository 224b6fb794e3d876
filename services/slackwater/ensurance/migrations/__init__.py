"""The schema `ensurance`, version by version."""
