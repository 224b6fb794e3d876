"""Recorded usage in memory: series on a grid of five minutes, and who of them is on which machine.

Pure but for `readers`, which read files. Whoever replays a trace (the backtest, the simulation, an assessment) begins
here.
"""
