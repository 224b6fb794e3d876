"""Messages: CloudEvents on NATS, decoded so that a bad one is refused and harms no other."""
