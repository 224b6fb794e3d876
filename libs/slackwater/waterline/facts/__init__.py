"""What a decision about one node may look at: the node, its pods, and what is known of each. Values only."""
