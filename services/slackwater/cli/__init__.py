"""The command line. Knows every service by name only, and loads one when a verb needs it."""
