"""Models of a machine's peak over the next 24 hours, one per module, behind `port`. Pure."""
