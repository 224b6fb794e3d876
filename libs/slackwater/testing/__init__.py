"""Twins for tests, shipped and held to the same tests as the real ones: bus, store, clock, fleet, servers."""
