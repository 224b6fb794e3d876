"""The order of candidates: chains of single-property comparators."""
