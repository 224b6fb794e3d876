from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.domain.disconnected import WRITER
from slackwater.bus.access.accounts import agent_claims, control_claims
from slackwater.bus.access.authority import AccessAuthority
from slackwater.bus.access.tokens import UserCredentials, claims_of
from slackwater.bus.admin.permissions import (
    ENROL,
    REVIEW,
    PartSubjects,
    agent_imports,
    agent_subscriptions,
    agent_user,
    backup_subjects,
    restore_subjects,
    service_subjects,
    users_of,
)
from slackwater.bus.admin.streams import event_named, load
from slackwater.bus.connect.access import AGENT_API_PREFIX, AGENT_MESSAGE_BYTES, NatsAccess, inbox_of
from slackwater.bus.consume.agent_rates import AT_ONCE
from slackwater.cli.broker import Certificates, registry, write_config
from slackwater.events import envelope
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import (
    agent_subjects,
    is_of_agent,
    own_subjects,
    subject_of,
    subject_token,
    subjects_about,
    subjects_of,
)
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import AGENT_WRITER, IntentDeclared, eviction_id
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.intents.controls import WRITERS
from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.model.identifiers import partition_of
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.service_list import service_list, service_names

SERVICES, AGENT = registry()
NODES = ["n.1", "n.2"]
AUTHORITY = AccessAuthority.of_seed(AccessAuthority.new_seed())
CREDENTIALS = {user: AUTHORITY.service_credentials(user) for user in users_of(SERVICES)}
names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=20)


def matches(pattern: str, subject: str) -> bool:
    """NATS' own rule: `*` one token, `>` one or more at the end."""
    expression = re.escape(pattern).replace(r"\*", "[^.]+").replace(">", ".+")
    return re.fullmatch(expression, subject) is not None


@given(node=names, other=names, writer=names)
def test_an_agents_subjects_are_those_of_its_own_node_and_of_no_other(node: str, other: str, writer: str) -> None:
    intent = IntentDeclared(node=node, writer=writer, generation=1, declared_at=datetime.now(UTC), lease_seconds=1)
    assert matches(own_subjects(IntentDeclared, node), subject_of(intent))
    assert matches(own_subjects(IntentDeclared, other), subject_of(intent)) is (node == other)
    assert matches(own_subjects(IntentDeclared, None), subject_of(intent))


@given(node=names, decision=names, number=st.integers(1, 999))
def test_an_agent_may_publish_the_completion_of_every_eviction_it_is_asked_for(
    node: str, decision: str, number: int
) -> None:
    ended = EvictionCompleted(
        id=eviction_id(decision, number), node=node, pod_uid="p", writer="ensurance", outcome=EvictionOutcome.KILLED,
        completed_at=datetime.now(UTC), decision_id=decision,
    )  # fmt: skip
    assert subject_of(ended) in agent_subjects(EvictionCompleted, node)


def test_an_agent_has_few_subjects_and_none_of_a_service() -> None:
    """What a stream keeps for each subject then bounds what one agent fills."""
    for payload in EVENTS:
        if payload.FROM_AGENT:
            mine = agent_subjects(payload, "n.1")
            assert all(is_of_agent(payload, subject) and "*" not in subject for subject in mine)
            of_services = [f"{subject}.{service}" for subject in mine for service in payload.ALSO_FROM]
            assert not any(is_of_agent(payload, subject) for subject in of_services)
            assert set(mine) | set(of_services) <= {
                subject for subject in (*mine, *of_services)
                if any(matches(pattern, subject) for pattern in subjects_about(payload, "n.1"))
            }  # fmt: skip
    assert {writer.name for writer in WRITERS} | {AGENT_WRITER} == set(EvictionCompleted.AGENT_KEYS)
    assert WRITER == AGENT_WRITER


def test_no_stream_keeps_more_of_an_agents_subject_than_a_consumer_reads_at_once() -> None:
    for payload in EVENTS:
        if payload.FROM_AGENT:
            spec = load().streams[payload.STREAM]
            assert spec.discard == "old"
            assert spec.max_messages_per_subject is not None
            assert spec.max_messages_per_subject <= AT_ONCE


def test_the_parts_of_every_key_are_as_many_as_the_event_says() -> None:
    compound = {payload.TYPE for payload in EVENTS if payload.KEY_PARTS == 2}
    assert compound == {
        "intent.declared", "intent.observed", "eviction.completed", "effect.measured", "decision.recorded",
        "state.quarantined", "resource.changed", "claim.changed", "eviction.requested",
        "move.proposed", "disruption_budget.changed", "pods.rostered",
    }  # fmt: skip


def test_the_backup_user_reaches_the_copies_of_durable_streams_and_nothing_else() -> None:
    backup, restore = backup_subjects(load()), restore_subjects(load())
    for stream, spec in load().streams.items():
        assert (f"$JS.API.STREAM.SNAPSHOT.{stream}" in backup) is (spec.storage == "file")
        assert (f"$JS.API.STREAM.RESTORE.{stream}" in restore) is (spec.storage == "file")
        assert (f"$JS.API.STREAM.INFO.{stream}" in restore) is (spec.storage == "file"), "refused before it is begun"
    assert all("SNAPSHOT" in subject and "RESTORE" not in subject for subject in backup)
    assert all("RESTORE" in subject or subject.startswith("$JS.API.STREAM.INFO.") for subject in restore)
    assert {"backup", "restore"} <= set(users_of(SERVICES))


def test_a_service_may_publish_what_it_says_and_bury_what_it_consumes() -> None:
    for part in SERVICES:
        allowed = service_subjects(part, load())
        for payload in EVENTS:
            # the operator's desk puts dead letters of any event back, of which there are none for commands
            may = payload.TYPE in part.publishes or (part.operates and not payload.COMMAND)
            subjects = subjects_of(payload) if part.operates else envelope.subjects_by_service(payload, part.name)
            assert (subjects in allowed) is may, (part.name, payload.TYPE)
        letters = {subject.removeprefix("sw.v1.dlq.") for subject in allowed if subject.startswith("sw.v1.dlq.")}
        assert all(letter.startswith(f"{part.name}-") for letter in letters)
        assert len(letters) == len(set(part.consumes))
        desk = {f"$JS.API.{verb}.{stream}" for verb in ("CONSUMER.LIST", "STREAM.MSG.GET") for stream in load().streams}
        durable = {spec.event for name, spec in load().consumers.items() if name.startswith(f"{part.name}-")}
        kept = {event for event in durable if load().keeps_last(event_named(event).STREAM)}
        read_back = {"$JS.API.STREAM.MSG.GET.STATE"} if kept else set()
        read_back |= {"$JS.API.STREAM.MSG.GET.ROSTERS"} if PodsRostered.TYPE in part.consumes else set()
        assert desk & set(allowed) == (desk if part.operates else read_back)


def test_every_durable_consumer_belongs_to_a_service_that_consumes_its_event() -> None:
    of = {part.name: part for part in SERVICES}
    for name, spec in load().consumers.items():
        service = name.split("-", 1)[0]
        assert spec.event in of[service].consumes, name
        assert name in load().only(service).consumers


def test_no_user_may_delete_or_purge_a_stream() -> None:
    everything = [subject for part in SERVICES for subject in service_subjects(part, load())]
    everything += [subject for node in NODES for subject in agent_imports(AGENT, node)]
    for verb in ("DELETE", "PURGE", "MSG.DELETE", "RESTORE", "SNAPSHOT"):
        assert not [subject for subject in everything if matches(subject, f"$JS.API.STREAM.{verb}.USAGE")]


def test_only_ingestion_removes_last_values_that_cannot_be_read() -> None:
    may = {part.name: [one for one in service_subjects(part, load()) if "MSG.DELETE" in one] for part in SERVICES}
    assert {name: subjects for name, subjects in may.items() if subjects} == {
        "ingestion": ["$JS.API.STREAM.MSG.DELETE.STATE"]
    }


def test_an_agents_account_has_only_what_names_its_node() -> None:
    mine = agent_imports(AGENT, "n.1")
    kept = set(AGENT.consumes) - {payload.TYPE for payload in BROADCASTS}
    published = [subject for event in AGENT.publishes for subject in agent_subjects(event_named(event), "n.1")]
    assert len(mine) == len(published) + 3 * len(kept) + 1, "and the renewal of its credentials"
    assert all(subject_token("n.1") in subject for subject in mine)
    assert not set(mine) & set(agent_imports(AGENT, "n.2"))
    assert all(local == subject or local.startswith(AGENT_API_PREFIX) for subject, local in mine.items())


def test_an_agent_receives_broadcasts_of_its_partition_and_publishes_none() -> None:
    heard = agent_subscriptions(AGENT, "n.1")
    assert heard == [f"sw.v1.lease.renewed.{partition_of('n.1')}.*"]
    claims = agent_claims(AGENT, "n.1", "ACONTROL")
    permissions = claims["default_permissions"]
    assert permissions["sub"]["allow"] == ["_INBOX.agent-n_2E1.>", *heard]
    assert not [subject for subject in permissions["pub"]["allow"] if "lease" in subject]
    streams = [one["subject"] for one in claims["imports"] if one["type"] == "stream"]
    assert streams == heard


def test_the_size_of_an_agents_account_is_bounded_and_its_block_revokes_what_was_issued() -> None:
    account = AUTHORITY.agent_account(AGENT, "n" * 63)
    assert len(account) < 9_000
    limits = claims_of(account)["nats"]["limits"]
    assert (limits["conn"], limits["subs"], limits["payload"]) == (8, 64, AGENT_MESSAGE_BYTES)
    since = datetime(2026, 1, 5, tzinfo=UTC)
    block = AgentBlockChanged(node="n", blocked=True, reason="r", changed_by="ada", since=since)
    blocked = claims_of(AUTHORITY.agent_account(AGENT, "n", block))["nats"]
    assert blocked["limits"]["conn"] == 0
    assert blocked["revocations"] == {"*": int(block.since.timestamp())}
    lifted = claims_of(AUTHORITY.agent_account(AGENT, "n", block.model_copy(update={"blocked": False})))["nats"]
    assert lifted["limits"]["conn"] == 8
    assert lifted["revocations"] == blocked["revocations"], "what was stolen before is not valid again"


def test_only_ensurance_renews_leases_and_no_service_receives_them() -> None:
    may = {part.name for part in SERVICES if any("lease" in subject for subject in service_subjects(part, load()))}
    assert may == {"ensurance"}
    assert not {event for part in SERVICES for event in part.consumes} & {payload.TYPE for payload in BROADCASTS}


def test_a_simulated_fleet_receives_every_partition_because_its_nodes_are_in_all() -> None:
    fleet = PartSubjects("fleet", AGENT.consumes, AGENT.publishes)
    scopes = control_claims(load(), [*SERVICES, fleet], AGENT, dict.fromkeys(users_of([*SERVICES, fleet]), "A"))
    received = {one["role"]: one["template"]["sub"]["allow"] for one in scopes["signing_keys"]}
    assert received.pop("fleet") == ["_INBOX.fleet.>", "sw.v1.lease.renewed.*.*"]
    assert received.pop("ingestion") == ["_INBOX.ingestion.>", f"{ENROL}.*"]
    assert received.pop("access") == ["_INBOX.access.>", REVIEW]
    assert all(heard == [f"_INBOX.{user}.>"] for user, heard in received.items())


def test_only_one_service_issues_access_and_only_it_may_answer() -> None:
    scopes = control_claims(load(), SERVICES, AGENT, dict.fromkeys(users_of(SERVICES), "A"))["signing_keys"]
    assert {one["role"] for one in scopes if "resp" in one["template"]} == {"ingestion", "access"}
    asking = {one["role"] for one in scopes if any(ENROL in subject for subject in one["template"]["pub"]["allow"])}
    assert asking == {"access"}


def config(folder: Path, before: str = "", services: Sequence[PartSubjects] = SERVICES) -> str:
    return AUTHORITY.config(load(), services, AGENT, CREDENTIALS, folder, before)


def test_the_configuration_changes_with_permissions_only_and_is_newer_then(tmp_path: Path) -> None:
    before = config(tmp_path)
    later = AccessAuthority(AUTHORITY.operator, now=lambda: AUTHORITY.now() + 100)
    assert later.config(load(), SERVICES, AGENT, CREDENTIALS, tmp_path, before) == before
    fewer = [replace(part, publishes=()) for part in SERVICES]
    changed = AUTHORITY.config(load(), fewer, AGENT, CREDENTIALS, tmp_path, before)
    control = AUTHORITY.account("CONTROL").public
    (old,), (new,) = (re.findall(rf'{control}: "([^"]+)"', text) for text in (before, changed))
    assert claims_of(new)["iat"] > claims_of(old)["iat"], "the broker keeps the newest"
    assert changed.replace(new, old) == before


def test_names_cannot_break_out_of_the_configuration(tmp_path: Path) -> None:
    nodes = ['n"} } accounts { EVIL { jetstream: enabled', "n\n2", "ö >", "{{name()}}"]
    assert all(re.fullmatch(r"agent-[A-Za-z0-9=_-]+", agent_user(node)) for node in nodes)
    assert all(re.fullmatch(r"[A-Za-z0-9=_-]+", AUTHORITY.ticket(node).name) for node in nodes)


def test_written_files_are_their_owners_alone_and_keys_stay(tmp_path: Path) -> None:
    folder = tmp_path / "nats"
    write_config(folder, ["n.1"], "127.0.0.1", 4222, None)
    kept = ("access.seed", "access.conf", "credentials/ingestion.creds", f"agents/{agent_user('n.1')}.creds")
    before = {name: (folder / name).read_text() for name in kept}
    write_config(folder, ["n.2"], "127.0.0.1", 4222, None)
    assert {name: (folder / name).read_text() for name in kept} == before, "a node that joins changes no file"
    assert (folder / "agents" / f"{agent_user('n.2')}.creds").exists()
    tls = Certificates(tmp_path / "c.pem", tmp_path / "c.key", tmp_path / "ca.pem")
    write_config(folder, NODES, "10.0.0.1", 4222, tls)
    assert "verify: true" in (folder / "access.conf").read_text()
    assert {file.stat().st_mode & 0o777 for file in folder.rglob("*") if file.is_file()} == {0o600}
    assert not list(folder.rglob(".*"))


def test_a_service_whose_file_is_removed_gets_another_and_the_old_one_is_not_valid(tmp_path: Path) -> None:
    write_config(tmp_path, [], "127.0.0.1", 4222, None)
    file = tmp_path / "credentials" / "quota.creds"
    before = UserCredentials.parse(file.read_text())
    file.unlink()
    write_config(tmp_path, [], "127.0.0.1", 4222, None)
    after = UserCredentials.parse(file.read_text())
    text = decoded((tmp_path / "access.conf").read_text())
    assert after.signer in text
    assert before.signer not in text


def decoded(config: str) -> str:
    return "".join(str(claims_of(token)) for token in re.findall(r'"(eyJ[^"]+)"', config))


@pytest.mark.parametrize("nodes", [["n", "n"], [""]])
def test_a_node_has_one_agent_and_a_name(tmp_path: Path, nodes: list[str]) -> None:
    with pytest.raises(InvalidInput, match="node"):
        write_config(tmp_path, nodes, "127.0.0.1", 4222, None)


def test_a_broker_beyond_this_machine_needs_tls_and_accounts(tmp_path: Path) -> None:
    everybody = "0.0.0.0"  # noqa: S104 - what is refused
    with pytest.raises(InvalidInput, match="--certificate"):
        write_config(tmp_path, [], everybody, 4222, None)
    with pytest.raises(Misconfigured, match="nats-config"):
        EmbeddedNats(tmp_path, host=everybody)
    EmbeddedNats(tmp_path, host="::1")


def test_credentials_that_cannot_work_are_named_and_never_shown(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"SLACKWATER_NATS_CREDENTIALS_FILE: .*No such file"):
        NatsAccess(credentials_file=tmp_path / "none").options("nats://h")
    (tmp_path / "half.creds").write_text(AUTHORITY.ticket("n").text[:-80])
    with pytest.raises(Misconfigured, match="is no credentials file") as refused:
        NatsAccess(credentials_file=tmp_path / "half.creds").options("nats://h")
    assert "eyJ" not in str(refused.value)
    with pytest.raises(Misconfigured, match="SLACKWATER_NATS_PASSWORD_FILE"):
        NatsAccess(user="u").options("nats://h")
    with pytest.raises(Misconfigured, match="No such file"):
        NatsAccess(user="u", password_file=tmp_path / "none").options("nats://h")
    with pytest.raises(Misconfigured, match="begin with tls://"):
        NatsAccess(ca=tmp_path / "ca").options("nats://h")
    with pytest.raises(Misconfigured, match="both"):
        NatsAccess(certificate=tmp_path / "c").options("tls://h")
    with pytest.raises(Misconfigured, match="cannot be used"):
        NatsAccess(ca=tmp_path / "ca").options("tls://h")
    with pytest.raises(Misconfigured, match="without credentials or TLS"):
        NatsAccess().options("nats://h")
    assert NatsAccess().options("nats://127.0.0.1") == {}
    (tmp_path / "password").write_text("secret\n")
    found = NatsAccess(user="a.b", password_file=tmp_path / "password").options("nats://h")
    assert found == {"user": "a.b", "password": "secret", "inbox_prefix": inbox_of("a.b")}
    assert inbox_of("a.>") == "_INBOX.a__"


def test_a_part_is_read_off_its_package() -> None:
    assert [part.name for part in SERVICES] == [*service_names(), *service_list().cluster_services, "access"]
    assert {part.name for part in SERVICES if part.operates or part.reads_streams} == {"console"}
    assert {part.name for part in SERVICES if part.issues_access} == {"ingestion"}
    assert {part.name for part in SERVICES if part.reviews_access} == {"access"}
    assert isinstance(AGENT, PartSubjects)


def test_commands_are_what_the_agents_act_on_and_no_service() -> None:
    """So whatever can become a dead letter of a service can be replayed, and nothing else."""
    # The service `kubernetes` carries out evictions of some nodes; it watches and has no consumer.
    heard = {event for part in SERVICES if part.name != "kubernetes" for event in part.consumes}
    acted_on = {payload.TYPE for payload in EVENTS}
    told = {payload.TYPE for payload in BROADCASTS}
    assert {payload.TYPE for payload in EVENTS if payload.COMMAND} == acted_on - heard == set(AGENT.consumes) - told
