"""The ports made real: Linux cgroups and /proc, a simulated machine, the journal and the ledger on disk."""
