"""Recorded usage in memory: series on a grid of five minutes, and their placement on machines.

Used by the backtest, the simulation and assessments. Pure, except `readers`, which read files.
"""
