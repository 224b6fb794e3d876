"""Models of a machine's peak over the next 24 hours, one file each. Their common interface is `port`."""
