"""Formulas of offers: batch, mid, degradation, gates, strategy layers. Pure."""
