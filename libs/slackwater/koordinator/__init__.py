"""Converts what Koordinator is configured with into documents of Slackwater, and reports what has no counterpart.

Pure: objects as JSON in, documents and report lines out. Source: Koordinator's APIs as of v1.8.
"""
