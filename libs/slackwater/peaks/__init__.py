"""Models of a machine's peak over the next 24 hours, one per module, behind `port`. Pure.

No policies and no choice of a model: the service prediction has them, and the backtest compares the same models.
"""
