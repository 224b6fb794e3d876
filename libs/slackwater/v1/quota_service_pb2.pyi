import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from slackwater.v1 import quantity_pb2 as _quantity_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClaimState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLAIM_STATE_UNSPECIFIED: _ClassVar[ClaimState]
    CLAIM_STATE_QUEUED: _ClassVar[ClaimState]
    CLAIM_STATE_ADMITTED: _ClassVar[ClaimState]
    CLAIM_STATE_STARTED: _ClassVar[ClaimState]
    CLAIM_STATE_RECLAIMING: _ClassVar[ClaimState]
    CLAIM_STATE_RELEASED: _ClassVar[ClaimState]
    CLAIM_STATE_RECLAIMED: _ClassVar[ClaimState]
    CLAIM_STATE_REFUSED: _ClassVar[ClaimState]
    CLAIM_STATE_WITHDRAWN: _ClassVar[ClaimState]
CLAIM_STATE_UNSPECIFIED: ClaimState
CLAIM_STATE_QUEUED: ClaimState
CLAIM_STATE_ADMITTED: ClaimState
CLAIM_STATE_STARTED: ClaimState
CLAIM_STATE_RECLAIMING: ClaimState
CLAIM_STATE_RELEASED: ClaimState
CLAIM_STATE_RECLAIMED: ClaimState
CLAIM_STATE_REFUSED: ClaimState
CLAIM_STATE_WITHDRAWN: ClaimState

class Claim(_message.Message):
    __slots__ = ("id", "quota", "tier", "state", "request", "admitted", "position", "queue_length", "reason", "message", "decision_id", "deadline", "for_quota", "for_claim")
    class RequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class AdmittedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    FOR_QUOTA_FIELD_NUMBER: _ClassVar[int]
    FOR_CLAIM_FIELD_NUMBER: _ClassVar[int]
    id: str
    quota: str
    tier: _quantity_pb2.Tier
    state: ClaimState
    request: _containers.ScalarMap[str, int]
    admitted: _containers.ScalarMap[str, int]
    position: int
    queue_length: int
    reason: str
    message: str
    decision_id: str
    deadline: _timestamp_pb2.Timestamp
    for_quota: str
    for_claim: str
    def __init__(self, id: _Optional[str] = ..., quota: _Optional[str] = ..., tier: _Optional[_Union[_quantity_pb2.Tier, str]] = ..., state: _Optional[_Union[ClaimState, str]] = ..., request: _Optional[_Mapping[str, int]] = ..., admitted: _Optional[_Mapping[str, int]] = ..., position: _Optional[int] = ..., queue_length: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., decision_id: _Optional[str] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., for_quota: _Optional[str] = ..., for_claim: _Optional[str] = ...) -> None: ...

class AdmitRequest(_message.Message):
    __slots__ = ("id", "quota", "tier", "request", "priority", "non_preemptible", "partial_minimum", "workload", "grace_seconds", "dry_run")
    class RequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PartialMinimumEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NON_PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_MINIMUM_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    id: str
    quota: str
    tier: _quantity_pb2.Tier
    request: _containers.ScalarMap[str, str]
    priority: int
    non_preemptible: bool
    partial_minimum: _containers.ScalarMap[str, str]
    workload: str
    grace_seconds: float
    dry_run: bool
    def __init__(self, id: _Optional[str] = ..., quota: _Optional[str] = ..., tier: _Optional[_Union[_quantity_pb2.Tier, str]] = ..., request: _Optional[_Mapping[str, str]] = ..., priority: _Optional[int] = ..., non_preemptible: _Optional[bool] = ..., partial_minimum: _Optional[_Mapping[str, str]] = ..., workload: _Optional[str] = ..., grace_seconds: _Optional[float] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class AdmitResponse(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class AdmitManyRequest(_message.Message):
    __slots__ = ("claims", "dry_run")
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[AdmitRequest]
    dry_run: bool
    def __init__(self, claims: _Optional[_Iterable[_Union[AdmitRequest, _Mapping]]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class AdmitManyResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AdmitResult]
    def __init__(self, results: _Optional[_Iterable[_Union[AdmitResult, _Mapping]]] = ...) -> None: ...

class AdmitResult(_message.Message):
    __slots__ = ("claim", "error")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    error: AdmitError
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., error: _Optional[_Union[AdmitError, _Mapping]] = ...) -> None: ...

class AdmitError(_message.Message):
    __slots__ = ("code", "message", "field")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    field: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., field: _Optional[str] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("quota", "id", "dry_run")
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    quota: str
    id: str
    dry_run: bool
    def __init__(self, quota: _Optional[str] = ..., id: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("quota", "id")
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    quota: str
    id: str
    def __init__(self, quota: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...
