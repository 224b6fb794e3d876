"""Formulas of colocation: batch offer, degradation, gating. No I/O, no clock, no randomness."""
