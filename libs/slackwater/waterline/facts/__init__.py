"""The inputs of a decision about one node: the node, its pods, and their attributes. Values
only.
"""
