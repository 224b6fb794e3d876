"""Models of peaks by name: what can be set about each, how it is made, and those that others install."""
