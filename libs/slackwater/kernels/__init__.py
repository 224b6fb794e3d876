"""Algorithms of the control plane that decide from a snapshot. Pure.

They import slackwater.model alone: no documents, no events, no settings.
"""
