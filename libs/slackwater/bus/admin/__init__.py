"""Streams, consumers and permissions as declared, and what an operator does with them."""
