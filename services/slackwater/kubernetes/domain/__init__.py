"""Which writes to the status of nodes are due: pure."""
