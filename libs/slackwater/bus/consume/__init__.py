"""Durable consumers: pull, decode, handle, settle, dead-letter."""
