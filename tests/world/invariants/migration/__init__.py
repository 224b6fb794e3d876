"""What holds for moves: their ledger, their evictions, their limits and their ends."""
