import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from slackwater.v1 import node_pb2 as _node_pb2
from slackwater.v1 import offer_pb2 as _offer_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SnapshotReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SNAPSHOT_REASON_UNSPECIFIED: _ClassVar[SnapshotReason]
    SNAPSHOT_REASON_INITIAL: _ClassVar[SnapshotReason]
    SNAPSHOT_REASON_LOG_BEGAN_ANEW: _ClassVar[SnapshotReason]
SNAPSHOT_REASON_UNSPECIFIED: SnapshotReason
SNAPSHOT_REASON_INITIAL: SnapshotReason
SNAPSHOT_REASON_LOG_BEGAN_ANEW: SnapshotReason

class GetNodeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: _node_pb2.Node
    def __init__(self, node: _Optional[_Union[_node_pb2.Node, _Mapping]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "pool", "liveness", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    pool: str
    liveness: _containers.RepeatedScalarFieldContainer[_node_pb2.Liveness]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., pool: _Optional[str] = ..., liveness: _Optional[_Iterable[_Union[_node_pb2.Liveness, str]]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[_node_pb2.Node]
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[_node_pb2.Node, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchOffersRequest(_message.Message):
    __slots__ = ("nodes", "pool", "resume_token", "bookmark_interval_seconds")
    NODES_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    pool: str
    resume_token: str
    bookmark_interval_seconds: int
    def __init__(self, nodes: _Optional[_Iterable[str]] = ..., pool: _Optional[str] = ..., resume_token: _Optional[str] = ..., bookmark_interval_seconds: _Optional[int] = ...) -> None: ...

class SnapshotStart(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: SnapshotReason
    def __init__(self, reason: _Optional[_Union[SnapshotReason, str]] = ...) -> None: ...

class OfferWithdrawn(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class Bookmark(_message.Message):
    __slots__ = ("as_of", "valid_until")
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    as_of: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    def __init__(self, as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WatchOffersResponse(_message.Message):
    __slots__ = ("snapshot_start", "offer", "offer_withdrawn", "bookmark", "resume_token")
    SNAPSHOT_START_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    OFFER_WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    snapshot_start: SnapshotStart
    offer: _offer_pb2.Offer
    offer_withdrawn: OfferWithdrawn
    bookmark: Bookmark
    resume_token: str
    def __init__(self, snapshot_start: _Optional[_Union[SnapshotStart, _Mapping]] = ..., offer: _Optional[_Union[_offer_pb2.Offer, _Mapping]] = ..., offer_withdrawn: _Optional[_Union[OfferWithdrawn, _Mapping]] = ..., bookmark: _Optional[_Union[Bookmark, _Mapping]] = ..., resume_token: _Optional[str] = ...) -> None: ...
