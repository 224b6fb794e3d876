"""The simulated world: seeded histories of the whole control plane in one process, each one replayable."""
