"""Invariants of what all services share: ownership, transactions, queues, logs."""
