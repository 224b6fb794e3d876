"""Descheduling, one module per event or loop."""
