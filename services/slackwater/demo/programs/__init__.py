"""Workloads of the scenes and the load generator: programs that use only the standard library.

    python -m slackwater.demo.programs batch '{"processes": 2}'

Each is a module whose function `main` takes these arguments and returns the exit status.
"""
