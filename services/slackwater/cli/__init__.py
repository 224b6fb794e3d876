"""The command line. It knows services by name only, and loads a service when a verb needs it."""
