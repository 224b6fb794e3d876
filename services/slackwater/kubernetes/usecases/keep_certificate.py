"""Keeps the certificates of the webhook in their Secret: one replica renews them, all serve what is there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final

from slackwater.apiserver.objects import SECRETS, SecretRecord
from slackwater.apiserver.port import ApiServer
from slackwater.kubernetes.domain.webhook_certificates import (
    CertificatePolicy,
    CertificateState,
    after_step,
    data_of,
    needs_pair,
    plan_certificates,
    read_state,
)
from slackwater.kubernetes.metrics import AdmissionMetrics
from slackwater.kubernetes.ports import PairIssuer, WebhookListener
from slackwater.kubernetes.usecases.choose_admission import ChooseAdmission, ProfileMode
from slackwater.kubernetes.usecases.follow_documents import PARTITION
from slackwater.model.errors import Conflict, Misconfigured, NotFound, SlackwaterError
from slackwater.model.time import Clock
from slackwater.profiles.webhook import WebhookAddress
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

READ_SECONDS: Final = 10.0
"""How often a replica reads the Secret at least, or four times within the settle time: then all have read a step."""
RETRY_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 1.0


class KeepCertificate:
    """`on_bundle` is called when the authorities to trust change. `trusted_since` says since when the API server has
    had a bundle."""

    def __init__(
        self,
        server: ApiServer,
        choice: ChooseAdmission,
        issuer: PairIssuer,
        listener: WebhookListener,
        clock: Clock,
        meter: AdmissionMetrics,
        owned: Callable[[], Collection[int]],
        address: WebhookAddress,
        policy: CertificatePolicy,
        on_bundle: Callable[[], None],
        trusted_since: Callable[[str], datetime | None],
    ) -> None:
        self._server = server
        self._choice = choice
        self._issuer = issuer
        self._listener = listener
        self._clock = clock
        self._meter = meter
        self._owned = owned
        self._address = address
        self._policy = policy
        self._on_bundle = on_bundle
        self._trusted_since = trusted_since
        self._read_seconds = min(READ_SECONDS, policy.settle.total_seconds() / 4)
        self._state: CertificateState | None = None
        self.problem = "no certificate was read yet"
        """Why the webhook does not serve; empty if it does."""

    @property
    def bundle(self) -> str:
        """The authorities that the API server is to trust; empty before the first certificate."""
        return self._state.bundle if self._state is not None else ""

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            if self._choice.chosen is not ProfileMode.WEBHOOK:
                await self._clock.sleep(IDLE_SECONDS)
                continue
            try:
                again_at = await self.keep()
                seconds = min(self._read_seconds, max(0.0, (again_at - self._clock.now()).total_seconds()))
                self.problem = "" if self._state is not None else "no replica has made a certificate yet"
            except Conflict:  # another replica wrote
                seconds = 0.0
            except SlackwaterError as error:
                if error.message != self.problem:
                    log.warning("certificate of the webhook not kept", reason=error.message)
                self.problem = error.message if self._state is None else ""
                seconds = RETRY_SECONDS
            await self._clock.sleep(max(IDLE_SECONDS / 10, seconds))

    async def keep(self) -> datetime:
        """Serve what the Secret has, and make the step that is due if this replica is to; returns when to look again.
        Raises Misconfigured without the Secret, and the port's errors."""
        key = f"{self._address.namespace}/{self._address.service}"
        secret = await self._server.read_object(SECRETS, key)
        if secret is None:
            raise Misconfigured(f"the Secret {key} does not exist: apply the chart or the manifests of this version")
        now = self._clock.now()
        await self._use(read_state(secret.data))
        if PARTITION not in self._owned():
            return now + timedelta(seconds=self._read_seconds)
        state, host = self._state, self._address.host
        plan = plan_certificates(state, host, self._trusted_since(self.bundle), self._policy, now)
        if plan.step is None:
            return plan.again_at
        made = await self._issuer.issue(self._hosts(), now, self._policy.lifetime) if needs_pair(plan.step) else None
        after = after_step(plan.step, state, made, host, now)
        await self._write(secret, after)
        log.info("certificate of the webhook", step=str(plan.step), expires_at=after.serving.expires_at.isoformat())
        return now

    async def _write(self, secret: SecretRecord, after: CertificateState) -> None:
        try:
            written = await self._server.write_secret(secret, data_of(after))
        except NotFound as error:
            raise Conflict("the Secret was deleted meanwhile") from error
        await self._use(read_state(written.data))

    async def _use(self, state: CertificateState | None) -> None:
        if state is None:
            return
        before = self._state
        if before is None or before.serving != state.serving:
            await self._listener.use(state.serving.certificate, state.serving.key)
        self._state = state
        self._meter.expires_in((state.serving.expires_at - self._clock.now()).total_seconds())
        if before is None or before.bundle != state.bundle:
            self._on_bundle()

    def _hosts(self) -> tuple[str, ...]:
        names = (self._address.host, f"{self._address.service}.{self._address.namespace}.svc")
        return tuple(dict.fromkeys(names))
