"""Signed access to the broker: keys and tokens of accounts and users, and how an agent gets and renews its own."""
