"""Events and routes of descheduling."""
