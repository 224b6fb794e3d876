"""Between use cases and the bus: payloads, causation, the outgoing queue."""
