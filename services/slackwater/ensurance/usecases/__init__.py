"""One file per thing that happens: a report, a confirmation, a new node, a new policy, a lease that runs out."""
