"""PostgreSQL in memory, as far as Slackwater uses it: SQL, transactions, locks, notifications and faults."""
