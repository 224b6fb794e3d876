"""What the command prints: a table, JSON of a stated schema, a page with pictures."""
