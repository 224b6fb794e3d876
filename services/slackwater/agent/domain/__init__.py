"""Pure: windows and percentiles, weights, which limit wins, the journal's rules, the life of an eviction."""
