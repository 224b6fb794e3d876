import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from slackwater.v1 import quantity_pb2 as _quantity_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ZoneOffer(_message.Message):
    __slots__ = ("name", "batch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    batch: _quantity_pb2.Resources
    def __init__(self, name: _Optional[str] = ..., batch: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ...) -> None: ...

class StatusOffer(_message.Message):
    __slots__ = ("batch", "before", "cpu_ratio")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    CPU_RATIO_FIELD_NUMBER: _ClassVar[int]
    batch: _quantity_pb2.Resources
    before: _quantity_pb2.Resources
    cpu_ratio: str
    def __init__(self, batch: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ..., before: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ..., cpu_ratio: _Optional[str] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("node", "generation", "batch", "mid", "offered_at", "valid_until", "degraded_because", "decision_ids", "zones", "reason", "strategies", "status")
    class DecisionIdsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    MID_FIELD_NUMBER: _ClassVar[int]
    OFFERED_AT_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    DECISION_IDS_FIELD_NUMBER: _ClassVar[int]
    ZONES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STRATEGIES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    node: str
    generation: int
    batch: _quantity_pb2.Resources
    mid: _quantity_pb2.Resources
    offered_at: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    degraded_because: str
    decision_ids: _containers.ScalarMap[str, str]
    zones: _containers.RepeatedCompositeFieldContainer[ZoneOffer]
    reason: str
    strategies: _containers.RepeatedScalarFieldContainer[str]
    status: StatusOffer
    def __init__(self, node: _Optional[str] = ..., generation: _Optional[int] = ..., batch: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ..., mid: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ..., offered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., degraded_because: _Optional[str] = ..., decision_ids: _Optional[_Mapping[str, str]] = ..., zones: _Optional[_Iterable[_Union[ZoneOffer, _Mapping]]] = ..., reason: _Optional[str] = ..., strategies: _Optional[_Iterable[str]] = ..., status: _Optional[_Union[StatusOffer, _Mapping]] = ...) -> None: ...
