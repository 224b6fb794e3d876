"""The node agent: measures one machine, and makes it what the intents of all writers together ask for.

It decides nothing about colocation: it measures, reports, and converges. Cut off for longer than a lease it goes on
with the rules that ensurance left with it (the same planner), and tells afterwards. What it decides by itself is only
how to stay safe: which limit wins when writers disagree, how throttles go back when a lease runs out, whom it refuses
to evict, and how every file it ever wrote gets its previous value back.
"""

CONSUMES: tuple[str, ...] = ("intent.declared", "lease.renewed")
PUBLISHES: tuple[str, ...] = (
    "node.described",
    "pods.rostered",
    "usage.reported",
    "waterline.crossed",
    "intent.observed",
    "eviction.completed",
    "agent.decision_recorded",
)
OWNS: tuple[str, ...] = ()
