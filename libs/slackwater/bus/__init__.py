"""Publish, consume, settle, dead-letter, watch: everything that touches NATS, and nothing else may.

`port` is what services see; `connect` makes it real on NATS; `codec` maps events to messages; `admin.streams` reads
contracts/streams.yaml and declares it. The in-memory bus is tests.support.bus and passes the same tests.
"""
