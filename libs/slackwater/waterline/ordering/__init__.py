"""The order of candidates: single-property comparators, and chains of them."""
