"""What ingestion stores, in memory: its ledger and the blocks of agents. No use cases."""
