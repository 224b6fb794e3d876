"""Draws the record of a run: as text on a terminal, and as one HTML page."""
