"""The messages and the client of the gRPC API, generated from contracts/proto by contracts/generate.py.

Nothing here is written by hand, and nothing but edges and clients should import it.
"""
