"""Bodies of frequent events, decoded fast or by columns."""
