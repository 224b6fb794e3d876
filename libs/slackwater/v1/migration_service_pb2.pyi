import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MigrationMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MIGRATION_MODE_UNSPECIFIED: _ClassVar[MigrationMode]
    MIGRATION_MODE_RESERVATION_FIRST: _ClassVar[MigrationMode]
    MIGRATION_MODE_EVICT_DIRECTLY: _ClassVar[MigrationMode]

class MigrationPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MIGRATION_PHASE_UNSPECIFIED: _ClassVar[MigrationPhase]
    MIGRATION_PHASE_PENDING: _ClassVar[MigrationPhase]
    MIGRATION_PHASE_RUNNING: _ClassVar[MigrationPhase]
    MIGRATION_PHASE_SUCCEEDED: _ClassVar[MigrationPhase]
    MIGRATION_PHASE_FAILED: _ClassVar[MigrationPhase]
    MIGRATION_PHASE_ABORTED: _ClassVar[MigrationPhase]
MIGRATION_MODE_UNSPECIFIED: MigrationMode
MIGRATION_MODE_RESERVATION_FIRST: MigrationMode
MIGRATION_MODE_EVICT_DIRECTLY: MigrationMode
MIGRATION_PHASE_UNSPECIFIED: MigrationPhase
MIGRATION_PHASE_PENDING: MigrationPhase
MIGRATION_PHASE_RUNNING: MigrationPhase
MIGRATION_PHASE_SUCCEEDED: MigrationPhase
MIGRATION_PHASE_FAILED: MigrationPhase
MIGRATION_PHASE_ABORTED: MigrationPhase

class MigrationJob(_message.Message):
    __slots__ = ("name", "phase", "step", "reason", "message", "pod", "workload", "from_node", "node", "replacement", "outcome", "held_by", "source", "submitted_at", "ended_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    phase: MigrationPhase
    step: str
    reason: str
    message: str
    pod: str
    workload: str
    from_node: str
    node: str
    replacement: str
    outcome: str
    held_by: MigrationHold
    source: str
    submitted_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., phase: _Optional[_Union[MigrationPhase, str]] = ..., step: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., pod: _Optional[str] = ..., workload: _Optional[str] = ..., from_node: _Optional[str] = ..., node: _Optional[str] = ..., replacement: _Optional[str] = ..., outcome: _Optional[str] = ..., held_by: _Optional[_Union[MigrationHold, _Mapping]] = ..., source: _Optional[str] = ..., submitted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class MigrationHold(_message.Message):
    __slots__ = ("filter", "scope", "count", "limit", "since")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    filter: str
    scope: str
    count: int
    limit: int
    since: _timestamp_pb2.Timestamp
    def __init__(self, filter: _Optional[str] = ..., scope: _Optional[str] = ..., count: _Optional[int] = ..., limit: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("name", "pod_uid", "pod_namespace", "pod_name", "mode", "ttl_seconds", "wait_limit_seconds", "paused", "priority", "target_node", "reason", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    POD_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAIT_LIMIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TARGET_NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    pod_uid: str
    pod_namespace: str
    pod_name: str
    mode: MigrationMode
    ttl_seconds: float
    wait_limit_seconds: float
    paused: bool
    priority: int
    target_node: str
    reason: str
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., pod_uid: _Optional[str] = ..., pod_namespace: _Optional[str] = ..., pod_name: _Optional[str] = ..., mode: _Optional[_Union[MigrationMode, str]] = ..., ttl_seconds: _Optional[float] = ..., wait_limit_seconds: _Optional[float] = ..., paused: _Optional[bool] = ..., priority: _Optional[int] = ..., target_node: _Optional[str] = ..., reason: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("job", "is_new")
    JOB_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    job: MigrationJob
    is_new: bool
    def __init__(self, job: _Optional[_Union[MigrationJob, _Mapping]] = ..., is_new: _Optional[bool] = ...) -> None: ...

class MigrationServiceWatchRequest(_message.Message):
    __slots__ = ("names", "resume_version")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    RESUME_VERSION_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    resume_version: int
    def __init__(self, names: _Optional[_Iterable[str]] = ..., resume_version: _Optional[int] = ...) -> None: ...

class MigrationServiceWatchResponse(_message.Message):
    __slots__ = ("job", "resume_version")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RESUME_VERSION_FIELD_NUMBER: _ClassVar[int]
    job: MigrationJob
    resume_version: int
    def __init__(self, job: _Optional[_Union[MigrationJob, _Mapping]] = ..., resume_version: _Optional[int] = ...) -> None: ...
