"""Keeps throttling stable: one node's CPU as a closed loop with state, hysteresis and gradual
restores.
"""
