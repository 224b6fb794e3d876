"""What operators decide, as validated values: NodeQOS, PodQOS, AvoidanceAction, and how far a pool may go."""
