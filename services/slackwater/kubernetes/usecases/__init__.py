"""What happens at an event, or when a write is due."""
