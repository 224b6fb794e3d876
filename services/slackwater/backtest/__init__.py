"""Backtest compares peak models on recorded traces with the usage that followed. It decides nothing for a cluster.

It is not a service: it reads files, uses no bus, and runs prediction's models unchanged.
"""
