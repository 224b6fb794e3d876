"""Scenes of the demo: one situation each, with and without Slackwater, on real processes."""
