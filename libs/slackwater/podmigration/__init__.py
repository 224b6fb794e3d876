"""Migration of pods: jobs and their life, arbitration between waiting jobs, limits, budgets, rate limits. Pure.

No evictions and no rows: the service migration has both. Not named `migration`, because the service of
that name shares the namespace `slackwater`.
"""
