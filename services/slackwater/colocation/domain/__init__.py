"""Formulas of colocation: batch and mid offers, degradation, gating. No I/O, no clock, no randomness."""
