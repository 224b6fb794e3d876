"""Decides how far to throttle and restore so that a waterline holds: pure, shared by ensurance and
the agent.

`node_guard.guard` is the entry point: it takes a view of one node, the state of the last cycle, the
policies and the time, and returns the changes, their reasons and the next state. All values are
frozen and convert to JSON, so `cycle_replay` can repeat a decision.

Belongs here: metrics and their gaps, counting, order of candidates, limits. Not here: clocks,
reports as events, storage, cgroups.
"""
