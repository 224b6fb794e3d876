"""Resource plugins over gRPC on unix sockets: those of others for this agent, and ours for another manager.

Loaded only where a directory of plugins is configured: gRPC costs 15 MB of memory (decision 0205).
"""
