"""What a cycle of descheduling is made of and comes to: pure."""
