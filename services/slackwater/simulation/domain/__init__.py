"""Figures of a replay and of an assessment: sums, shares, risks. No I/O, no clock, no randomness."""
