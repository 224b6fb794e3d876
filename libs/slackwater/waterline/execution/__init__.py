"""From demands to a plan: in order, one pass, exactly as far as each gap, with the reason for what
stays open.
"""
