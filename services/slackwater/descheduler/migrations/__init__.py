"""Migrations of the schema `descheduler`."""
