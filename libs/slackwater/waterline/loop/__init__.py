"""What keeps throttling steady: one node's CPU as a closed loop with memory, patience and careful steps back up."""
