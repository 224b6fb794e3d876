import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from slackwater.v1 import offer_pb2 as _offer_pb2
from slackwater.v1 import quantity_pb2 as _quantity_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Liveness(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIVENESS_UNSPECIFIED: _ClassVar[Liveness]
    LIVENESS_FRESH: _ClassVar[Liveness]
    LIVENESS_STALE: _ClassVar[Liveness]
    LIVENESS_LOST: _ClassVar[Liveness]
LIVENESS_UNSPECIFIED: Liveness
LIVENESS_FRESH: Liveness
LIVENESS_STALE: Liveness
LIVENESS_LOST: Liveness

class TierUsage(_message.Message):
    __slots__ = ("tier", "used")
    TIER_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    tier: _quantity_pb2.Tier
    used: _quantity_pb2.Resources
    def __init__(self, tier: _Optional[_Union[_quantity_pb2.Tier, str]] = ..., used: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ...) -> None: ...

class NodeUsage(_message.Message):
    __slots__ = ("sampled_at", "window_seconds", "total", "system", "tiers", "node_cpu_pressure", "prod_cpu_pressure")
    SAMPLED_AT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    NODE_CPU_PRESSURE_FIELD_NUMBER: _ClassVar[int]
    PROD_CPU_PRESSURE_FIELD_NUMBER: _ClassVar[int]
    sampled_at: _timestamp_pb2.Timestamp
    window_seconds: float
    total: _quantity_pb2.Resources
    system: _quantity_pb2.Resources
    tiers: _containers.RepeatedCompositeFieldContainer[TierUsage]
    node_cpu_pressure: float
    prod_cpu_pressure: float
    def __init__(self, sampled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., window_seconds: _Optional[float] = ..., total: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ..., system: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ..., tiers: _Optional[_Iterable[_Union[TierUsage, _Mapping]]] = ..., node_cpu_pressure: _Optional[float] = ..., prod_cpu_pressure: _Optional[float] = ...) -> None: ...

class NodeCondition(_message.Message):
    __slots__ = ("type", "is_true", "reason", "message", "since", "valid_until", "decision_id", "rules")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    IS_TRUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    type: str
    is_true: bool
    reason: str
    message: str
    since: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    decision_id: str
    rules: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, type: _Optional[str] = ..., is_true: _Optional[bool] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decision_id: _Optional[str] = ..., rules: _Optional[_Iterable[str]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "pool", "labels", "capacity", "reserved", "liveness", "liveness_changed_at", "described_at", "usage", "offer", "conditions")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_CHANGED_AT_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_AT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    pool: str
    labels: _containers.ScalarMap[str, str]
    capacity: _quantity_pb2.Resources
    reserved: _quantity_pb2.Resources
    liveness: Liveness
    liveness_changed_at: _timestamp_pb2.Timestamp
    described_at: _timestamp_pb2.Timestamp
    usage: NodeUsage
    offer: _offer_pb2.Offer
    conditions: _containers.RepeatedCompositeFieldContainer[NodeCondition]
    def __init__(self, name: _Optional[str] = ..., pool: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., capacity: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ..., reserved: _Optional[_Union[_quantity_pb2.Resources, _Mapping]] = ..., liveness: _Optional[_Union[Liveness, str]] = ..., liveness_changed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., described_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., usage: _Optional[_Union[NodeUsage, _Mapping]] = ..., offer: _Optional[_Union[_offer_pb2.Offer, _Mapping]] = ..., conditions: _Optional[_Iterable[_Union[NodeCondition, _Mapping]]] = ...) -> None: ...
