"""Pure: what is known of a node between reports, and the records that explain decisions."""
