"""Schema `prediction`: snapshots, what was published, nodes, and the messaging tables."""
