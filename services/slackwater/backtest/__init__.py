"""Backtest decides nothing for a cluster: it judges models of peaks on recorded traces, against what really came.

It stands beside the services, reads files and no bus, and uses the models of prediction as they are.
"""
