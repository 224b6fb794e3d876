"""The decision record: inputs, terms, result, and the alternatives that were rejected.

Contains the record, the closed enums of kinds and reasons, and the check that the terms add up. The formulas are in the
services.
"""
