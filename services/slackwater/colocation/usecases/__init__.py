"""The use cases of colocation: event handlers, timers and the full pass."""
