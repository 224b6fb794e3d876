"""Adapters of prediction: PostgreSQL, metrics and the registry of models."""
