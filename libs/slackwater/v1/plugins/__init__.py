"""Contracts of plugins of a node, generated from contracts/proto by contracts/generate.py."""
