"""The decision record: what was decided, from which inputs, by which terms, and what was not chosen.

Belongs here: the record, the closed enums of reasons, checks that a record adds up. Not here: the formulas.
"""
