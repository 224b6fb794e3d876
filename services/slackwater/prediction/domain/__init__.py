"""Formulas of prediction: histograms, series, peaks, snapshots. No I/O, no clock, no randomness."""
