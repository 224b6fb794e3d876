"""The command line: verbs, their documents and what they print. It loads a service when a verb needs it.

No decision is made here: verbs ask the API, or run a service's own functions, and services never import this package.
"""
