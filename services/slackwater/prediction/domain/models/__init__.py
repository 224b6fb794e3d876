"""Models of a machine's peak over the next 24 hours, behind one small interface (`port`): one file each."""
