"""Invariants of the service quota: no claim lost or doubled, no room given twice, order kept, nothing owed at rest."""
