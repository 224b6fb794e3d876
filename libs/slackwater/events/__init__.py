"""The events on the bus, one module per event, and their envelope.

An event is a fact named in the past tense: a frozen pydantic model that declares its type, stream and key.
The JSON Schemas in contracts/events are generated from these models. The package contains no behaviour.
"""
