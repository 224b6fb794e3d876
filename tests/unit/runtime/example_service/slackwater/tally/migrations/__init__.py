"""Schema `tally`: the tables that every service has."""
