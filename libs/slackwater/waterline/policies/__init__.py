"""Operator policies as validated values: NodeQOS, PodQOS, AvoidanceAction, and a pool's
autonomy.
"""
