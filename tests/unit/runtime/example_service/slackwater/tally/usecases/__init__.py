"""One module per event or loop."""
