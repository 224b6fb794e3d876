"""What the commands print: tables, JSON of a stated schema, pages with pictures."""
