"""From a node's readings to demands: which waterlines are crossed, by how much, and who may be asked to give way."""
