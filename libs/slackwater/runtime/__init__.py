"""How services run: the Service protocol, the skeleton of replicated services, HTTP, gRPC, health, embedded servers.

The same service object runs alone (`slackwater run NAME`) or beside the others in one process (`slackwater up`).
No decision of a service and no formula belongs here.
"""
