"""Migration of pods, pure: jobs and their life, arbitration between waiting jobs, limits, budgets, rate limits.

Not named `migration`, because the service of that name shares the namespace `slackwater`.
"""
