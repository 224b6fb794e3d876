"""How services run: the Service protocol, the supervisor, health, and the embedded servers.

The same service object runs alone (`slackwater run NAME`) or beside the others in one process
(`slackwater up`).
"""
