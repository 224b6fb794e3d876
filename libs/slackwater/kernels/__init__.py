"""Pure algorithms of the control plane: they decide from a snapshot, do no I/O, and import `model` alone."""
