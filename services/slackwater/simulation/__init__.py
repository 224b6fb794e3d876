"""Simulation decides nothing for a cluster: it says what another strategy would have offered, and what could be lent.

It stands beside the services, reads traces or what was recorded, and decides with the functions that decide offers.
"""
