"""How far to throttle and restore so that a waterline holds: pure, shared by ensurance and the agent.

`guarding.guard` is the whole of it: a view of one node, the state kept since the last one, the policies and the time
go in; what to change, why, and the next state come out. All of them are frozen and turn into JSON (`replaying`), so a
decision can be repeated. Belongs here: metrics and their gaps, counting, order of candidates, limits.
Not here: clocks, reports as events, storage, cgroups.
"""
