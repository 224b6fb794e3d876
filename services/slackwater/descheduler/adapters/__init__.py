"""State and metrics of descheduling."""
