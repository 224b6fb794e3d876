"""Names and addresses that belong to one service."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import Misconfigured
from slackwater.store.names import lock_key, role_password, service_dsn

ADMIN = "postgresql://postgres:secret@127.0.0.1:5432/slackwater"


def test_a_service_logs_in_as_its_own_role_at_the_same_server() -> None:
    parts = urlsplit(service_dsn(ADMIN, "quota"))
    assert (parts.username, parts.hostname, parts.port, parts.path) == (
        "slackwater_quota", "127.0.0.1", 5432, "/slackwater",
    )  # fmt: skip
    assert unquote(parts.password or "") == role_password(ADMIN, "quota")


def test_a_password_depends_on_the_service_and_the_administrators_password_alone() -> None:
    other_place = "postgresql://postgres:secret@db:6543/other"
    assert role_password(ADMIN, "quota") == role_password(other_place, "quota")
    assert role_password(ADMIN, "quota") != role_password(ADMIN, "console")
    assert role_password(ADMIN, "quota") != role_password(ADMIN.replace("secret", "changed"), "quota")
    assert "secret" not in service_dsn(ADMIN, "quota")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://postgres@db.example:5432/slackwater",
        "postgresql://postgres@10.0.0.6/slackwater",
        "postgresql://postgres:@db/slackwater",
        "postgresql://postgres@127.0.0.1,db:5432/slackwater",
        "postgresql://postgres@/slackwater?host=db",
        "postgresql://postgres@localhost/slackwater?host=/run/postgresql,db",
    ],
)
def test_without_a_password_nothing_beyond_this_machine_is_given_a_password_that_all_could_compute(
    address: str,
) -> None:
    with pytest.raises(Misconfigured, match="holds no password"):
        service_dsn(address, "quota")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://postgres@127.0.0.1:5432/slackwater",
        "postgresql://postgres@[::1]:5432/slackwater",
        "postgresql://postgres@localhost/slackwater",
        "postgresql://postgres@/slackwater?host=/run/postgresql",
        "postgresql://postgres@%2Frun%2Fpostgresql/slackwater",
        "postgresql:///slackwater",
        "postgresql://postgres@db/slackwater?password=secret",
    ],
)
def test_a_local_server_decides_whether_a_password_is_needed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGHOST", raising=False)
    assert "slackwater_quota" in service_dsn(address, "quota")


def test_a_host_that_only_the_environment_names_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    with pytest.raises(Misconfigured, match="holds no password"):
        role_password("postgresql:///slackwater", "quota")
    monkeypatch.setenv("PGHOST", "/run/postgresql")
    assert role_password("postgresql:///slackwater", "quota")


def test_the_administrator_s_login_never_stays_in_the_address_of_a_service() -> None:
    found = service_dsn("postgresql://db/slackwater?user=root&password=secret&sslmode=verify-full", "quota")
    assert "secret" not in found
    assert "root" not in found
    assert urlsplit(found).query == "sslmode=verify-full"


@given(st.text(), st.text())
def test_lock_keys_are_bigints(purpose: str, service: str) -> None:
    assert 0 <= lock_key(purpose, service) < 2**63
