"""Workloads of the scenes and the load generator: separate programs, which use only the standard library."""
