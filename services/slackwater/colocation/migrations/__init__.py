"""Schema `colocation`: one state per node, and the messaging tables."""
