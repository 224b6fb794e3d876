"""How far to throttle and restore so that a waterline holds: pure, shared by ensurance and the agent.

`planner.plan` is the whole of it: a snapshot of one node, the state kept since the last one, the policy and the time
go in; what to change, why, and the next state come out. All of them are frozen and turn into JSON (`codec`), so a
decision can be repeated. Belongs here: metrics and their gaps, counting, order of candidates, limits.
Not here: clocks, reports as events, storage, cgroups.
"""
