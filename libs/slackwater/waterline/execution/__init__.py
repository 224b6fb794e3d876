"""From demands to a plan: exactly as far as each gap, in order, one pass, and what stayed open with its reason."""
