"""From a node's readings to demands: which waterlines are crossed, by how much, and which pods are
candidates.
"""
