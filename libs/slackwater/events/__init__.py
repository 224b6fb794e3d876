"""What crosses the bus: one module per event, and the envelope they travel in.

An event is a fact in the past tense, a frozen pydantic model with its type, stream and key declared beside it.
The JSON Schemas in contracts/events are generated from these models. No behaviour lives here.
"""
