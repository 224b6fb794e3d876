"""What colocation does with each event and with the passing of time."""
