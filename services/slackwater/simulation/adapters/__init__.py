"""Histories from traces, from Prometheus, from a running installation; strategies from files."""
