"""Plans the certificates of the webhook, so that the API server trusts every one that a replica may serve. Pure.

introduce   a new pair; the API server trusts both authorities, replicas serve the old one
switch      once it has trusted them for `settle`: replicas serve the new one
retire      once replicas had `settle` to read that: the old authority is no longer trusted

Each pair has an authority of its own, whose key is thrown away after it has signed: a Secret that leaks lets nothing
else be signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

_PAIR: Final = ("ca.crt", "tls.crt", "tls.key")
_NEXT: Final = "next."
_FORMER: Final = "former.ca.crt"
_TIMES: Final = ("issued-at", "expires-at")
_CHANGED: Final = "changed-at"
_HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A serving certificate, its key, and the authority that signed it, in PEM."""

    authority: str
    certificate: str
    key: str
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CertificateState:
    """What the Secret holds. `following` is introduced and not served yet; `former` is the authority that replicas may
    still serve of. `changed_at`: the last step. `host`: the first name in the certificates."""

    serving: CertificatePair
    host: str
    changed_at: datetime
    following: CertificatePair | None = None
    former: str = ""

    @property
    def bundle(self) -> str:
        """The authorities to trust."""
        following = self.following.authority if self.following is not None else ""
        return self.serving.authority + following + self.former


@dataclass(frozen=True, slots=True)
class CertificatePolicy:
    """How long a certificate is valid, and how long both sides have to notice a step. It is replaced after two thirds
    of its time."""

    lifetime: timedelta
    settle: timedelta

    def renew_at(self, pair: CertificatePair) -> datetime:
        return pair.issued_at + (pair.expires_at - pair.issued_at) * 2 / 3


class CertificateStep(StrEnum):
    """The next step."""

    REPLACE = "replace"
    """There is none that can be used: the new pair is served at once."""
    INTRODUCE = "introduce"
    SWITCH = "switch"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """The step that is due now; when to plan again."""

    step: CertificateStep | None
    again_at: datetime


def plan_certificates(
    state: CertificateState | None,
    host: str,
    trusted_since: datetime | None,
    policy: CertificatePolicy,
    now: datetime,
) -> CertificatePlan:
    """The next step. `trusted_since`: since when the API server has had the state's bundle; None: it has another one,
    as far as is known, and nothing goes on."""
    if state is None or state.host != host or now >= state.serving.expires_at:
        return CertificatePlan(CertificateStep.REPLACE, now)
    if state.following is not None:
        if trusted_since is None:
            return CertificatePlan(None, now + policy.settle)
        return _at(CertificateStep.SWITCH, max(trusted_since, state.changed_at) + policy.settle, now)
    if state.former:
        return _at(CertificateStep.RETIRE, state.changed_at + policy.settle, now)
    return _at(CertificateStep.INTRODUCE, policy.renew_at(state.serving), now)


def _at(step: CertificateStep, due_at: datetime, now: datetime) -> CertificatePlan:
    return CertificatePlan(step if now >= due_at else None, due_at)


def after_step(
    step: CertificateStep, state: CertificateState | None, made: CertificatePair | None, host: str, now: datetime
) -> CertificateState:
    """The state after a step. `made` is the new pair of the steps that need one."""
    match step:
        case CertificateStep.REPLACE:
            assert made is not None  # noqa: S101 - see needs_pair
            return CertificateState(made, host, now)
        case CertificateStep.INTRODUCE:
            assert state is not None  # noqa: S101 - planned of a state
            return CertificateState(state.serving, host, now, following=made)
        case CertificateStep.SWITCH:
            assert state is not None and state.following is not None  # noqa: S101, PT018 - planned of such a state
            return CertificateState(state.following, host, now, former=state.serving.authority)
        case CertificateStep.RETIRE:
            assert state is not None  # noqa: S101 - planned of a state
            return CertificateState(state.serving, host, now)


def needs_pair(step: CertificateStep) -> bool:
    """Whether a step needs a new pair."""
    return step in (CertificateStep.REPLACE, CertificateStep.INTRODUCE)


def read_state(data: Mapping[str, str]) -> CertificateState | None:
    """The state in a Secret's data; None for none, or one that cannot be read."""
    serving, following = _pair(data, ""), _pair(data, _NEXT)
    changed_at = _moment(data.get(_CHANGED, ""))
    if serving is None or changed_at is None:
        return None
    return CertificateState(serving, data.get(_HOST, ""), changed_at, following, data.get(_FORMER, ""))


def data_of(state: CertificateState) -> dict[str, str]:
    """A Secret's data. `tls.crt`, `tls.key` and `ca.crt` are what is served."""
    data = _entries(state.serving, "") | {_CHANGED: state.changed_at.isoformat(), _HOST: state.host}
    if state.following is not None:
        data |= _entries(state.following, _NEXT)
    if state.former:
        data[_FORMER] = state.former
    return data


def _entries(pair: CertificatePair, prefix: str) -> dict[str, str]:
    texts = dict(zip(_PAIR, (pair.authority, pair.certificate, pair.key), strict=True))
    times = dict(zip(_TIMES, (pair.issued_at.isoformat(), pair.expires_at.isoformat()), strict=True))
    return {f"{prefix}{name}": value for name, value in {**texts, **times}.items()}


def _pair(data: Mapping[str, str], prefix: str) -> CertificatePair | None:
    texts = [data.get(f"{prefix}{name}", "") for name in _PAIR]
    issued_at, expires_at = (_moment(data.get(f"{prefix}{name}", "")) for name in _TIMES)
    if not all(texts) or issued_at is None or expires_at is None:
        return None
    authority, certificate, key = texts
    return CertificatePair(authority, certificate, key, issued_at, expires_at)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
