"""Reads without acknowledgement: streams in order, the last value of a subject, broadcasts."""
