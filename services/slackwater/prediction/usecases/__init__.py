"""What prediction does with each event: fold a window, learn a node's facts, keep and restore its state."""
