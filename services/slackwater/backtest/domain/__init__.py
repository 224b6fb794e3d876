"""Traces on a grid, who is placed where, what a perfect forecast would have said, and how far a model was from it."""
