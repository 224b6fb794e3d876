"""What a move follows from: jobs and reservations as they are kept, what is seen of them, and each round. Pure."""
