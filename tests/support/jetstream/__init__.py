"""A twin of nats-server for virtual time: what the bus relies on, at the level of subjects and messages.

The real bus (slackwater.bus) runs on it through a client without a socket (client.py). Not the real code: the client's
socket, parser and connection attempts, TLS, permissions. A connection keeps order and breaks where a message is lost,
as TCP does (tests.support.link). tests/integration/bus compares it with the real server message by message.

Known differences:
- What the twin does not model raises Unmodelled.
- A power failure of the real server is a kill after which its store is replaced by an older copy.
- Not compared: clusters, a server that drops slow subscribers, and a full disk, on which the twin does not answer.
- An acknowledgement just before a kill may be forgotten, and one for a deleted stream counts for its successor.
- The id of a superseded message is forgotten at a restart: a late repetition is stored again, after the newer value.
"""
