"""Connections to the broker: credentials, TLS, reconnection, publishing."""
