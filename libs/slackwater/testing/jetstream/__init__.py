"""A twin of nats-server for virtual time: what the bus relies on, at the level of subjects and messages.

The real bus (slackwater.bus) runs on it through a client without a socket (client.py). tests/integration/bus compares
it with the real server.
"""
