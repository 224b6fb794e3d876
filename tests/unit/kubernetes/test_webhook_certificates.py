"""Certificates of the webhook: at no moment does a replica serve one that an API server does not trust."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.kubernetes.domain.webhook_certificates import (
    CertificatePair,
    CertificatePolicy,
    CertificateState,
    CertificateStep,
    after_step,
    data_of,
    needs_pair,
    plan_certificates,
    read_state,
)

HOST = "webhook.svc"
SETTLE = timedelta(seconds=60)
POLICY = CertificatePolicy(timedelta(minutes=30), SETTLE)


def pair(number: int, now: datetime) -> CertificatePair:
    return CertificatePair(f"<ca {number}>", f"<crt {number}>", f"<key {number}>", now, now + POLICY.lifetime)


class Installation:
    """The Secret, replicas that read it, and API servers that read the webhook's configuration, each in their own time
    but within the settle time."""

    def __init__(self) -> None:
        self.now, self.state, self.numbers = EPOCH, CertificateState(pair(0, EPOCH), HOST, EPOCH), 0
        self.served = [self.state.serving, self.state.serving]
        self.configured, self.trusted = self.state.bundle, [self.state.bundle, self.state.bundle]
        self.trusted_since: datetime | None = EPOCH
        self.read_at = [EPOCH] * 4
        self.steps: list[CertificateStep] = []

    def pass_time(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    def configure(self) -> None:
        """The renewing replica writes the bundle to the API server."""
        if self.configured != self.state.bundle or self.trusted_since is None:
            self.configured, self.trusted_since = self.state.bundle, self.now

    def read(self, reader: int) -> None:
        self.read_at[reader] = self.now
        if reader < 2:
            self.served[reader] = self.state.serving
        else:
            self.trusted[reader - 2] = self.configured

    def forget(self) -> None:
        """Another replica renews from now on: it has not seen what the API server has."""
        self.trusted_since = None

    def plan(self) -> None:
        plan = plan_certificates(self.state, HOST, self.trusted_since, POLICY, self.now)
        if plan.step is None:
            assert plan.again_at > self.now
            return
        made = None
        if needs_pair(plan.step):
            self.numbers += 1
            made = pair(self.numbers, self.now)
        self.steps.append(plan.step)
        self.state = after_step(plan.step, self.state, made, HOST, self.now)
        if self.state.bundle != self.configured:
            self.trusted_since = None

    def check(self) -> None:
        for served in self.served:
            for trusted in self.trusted:
                assert served.authority in trusted, (self.steps, served, trusted)


ACTIONS = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from(["plan", "plan", "configure", "forget", "none"]), st.integers(0, 15)),
    min_size=20,
    max_size=60,
)
"""Seconds that pass, what happens then, and which readers read before: one bit each."""


@settings(max_examples=50)
@given(ACTIONS)
def test_every_served_certificate_is_trusted_at_any_moment(actions: list[tuple[int, str, int]]) -> None:
    site = Installation()
    for seconds, action, reads in actions * 2:
        for reader in range(4):  # before so much time has passed that it would be late
            late = site.now + timedelta(seconds=seconds) - site.read_at[reader] > SETTLE
            if late or reads >> reader & 1:
                site.read(reader)
                site.check()
        site.pass_time(seconds)
        {"plan": site.plan, "configure": site.configure, "forget": site.forget, "none": lambda: None}[action]()
        if CertificateStep.REPLACE in site.steps:  # nothing was renewed for the whole lifetime
            return
        site.check()


def test_a_rotation_has_three_steps_and_ends_as_it_began() -> None:
    site = Installation()
    for _ in range(200):
        site.plan()
        site.configure()
        site.pass_time(15)
    expected = [CertificateStep.INTRODUCE, CertificateStep.SWITCH, CertificateStep.RETIRE]
    assert site.steps[:6] == expected * 2
    assert site.state.serving.issued_at > EPOCH + timedelta(minutes=15)


def test_nothing_goes_on_while_the_api_server_does_not_trust_the_new_authority() -> None:
    site = Installation()
    site.pass_time(20 * 60)
    site.plan()
    for _ in range(20):
        site.pass_time(15)
        site.plan()
    assert site.steps == [CertificateStep.INTRODUCE]


def test_what_cannot_be_used_is_replaced_at_once() -> None:
    state = CertificateState(pair(0, EPOCH), HOST, EPOCH)
    for unusable, host, now in (
        (None, HOST, EPOCH),
        (state, "other.svc", EPOCH),
        (state, HOST, state.serving.expires_at),
    ):
        assert plan_certificates(unusable, host, None, POLICY, now).step is CertificateStep.REPLACE


TIMES = st.integers(0, 10**9).map(lambda seconds: EPOCH + timedelta(seconds=seconds))
PAIRS = st.builds(CertificatePair, *(st.text(min_size=1),) * 3, TIMES, TIMES)


@settings(max_examples=50)
@given(st.builds(CertificateState, PAIRS, st.text(), TIMES, st.none() | PAIRS, st.text()))
def test_a_state_is_read_as_it_was_written(state: CertificateState) -> None:
    assert read_state(data_of(state)) == state


@settings(max_examples=50)
@given(
    st.builds(CertificateState, PAIRS, st.text(), TIMES),
    st.sampled_from(["ca.crt", "tls.crt", "tls.key", "issued-at", "expires-at", "changed-at"]),
    st.sampled_from(["", "2020-01-01T00:00:00", "soon", "0"]),
)
def test_a_secret_that_lacks_a_part_is_no_state(state: CertificateState, name: str, text: str) -> None:
    data = data_of(state)
    assert read_state({key: value for key, value in data.items() if key != name}) is None
    if name.endswith("-at"):
        assert read_state({**data, name: text}) is None
