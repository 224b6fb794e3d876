"""Publish, consume, settle, dead-letter, watch: everything that touches NATS, and nothing else may.

`port` is what services see; `nats` makes it real; `encoding` maps events to messages; `streams` reads
contracts/streams.yaml and declares it. The in-memory twin is slackwater.testing.bus and passes the same tests.
"""
