"""Formulas of offers: batch, mid, degradation, gates, strategy layers. Pure.

No clock and no store: colocation publishes and keeps offers, the simulation replays them.
"""
