"""What the agent does: sample, report, converge to intents, evict, restore."""
