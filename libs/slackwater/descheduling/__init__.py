"""Descheduling: which pods would be better elsewhere. Plugins, protections, LowNodeLoad, rest after a move. Pure.

No moves: their life is slackwater.podmigration, and the services read the cluster and keep the rows.
"""
