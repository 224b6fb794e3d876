from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Tier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIER_UNSPECIFIED: _ClassVar[Tier]
    TIER_PROD: _ClassVar[Tier]
    TIER_MID: _ClassVar[Tier]
    TIER_BATCH: _ClassVar[Tier]
    TIER_FREE: _ClassVar[Tier]
TIER_UNSPECIFIED: Tier
TIER_PROD: Tier
TIER_MID: Tier
TIER_BATCH: Tier
TIER_FREE: Tier

class Resources(_message.Message):
    __slots__ = ("cpu_milli", "memory_bytes")
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    cpu_milli: int
    memory_bytes: int
    def __init__(self, cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...
