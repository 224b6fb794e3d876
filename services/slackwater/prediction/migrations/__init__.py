"""Schema `prediction`: snapshots, published predictions, nodes, and the messaging tables."""
