from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import APIRouter, FastAPI
from pydantic import SecretStr

from slackwater.model.errors import Misconfigured
from slackwater.runtime.http import build_app
from slackwater.runtime.http_access import (
    OPEN,
    Authenticator,
    Forbidden,
    Principal,
    Role,
    Routes,
    RpcRoles,
    Unauthorized,
    authenticate,
)
from slackwater.runtime.routes import DryRun, RoleRoute, guarded_routes
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

EVERYBODY = "0.0.0.0"  # noqa: S104 - nothing listens here
TLS = {"tls_certificate": Path("c"), "tls_key": Path("k")}


async def no_checks() -> list[Check]:
    return []


async def changing(dry_run: DryRun = False) -> bool:
    return dry_run


def test_a_route_without_a_role_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="role"):
        Routes().get("/nodes")  # type: ignore[call-arg]  # what is shown here
    with pytest.raises(Misconfigured, match="/raw declares no role"):
        Routes().add_api_route("/raw", no_checks)
    with pytest.raises(Misconfigured, match="/raw declares no role"):
        RoleRoute("/raw", no_checks)


@pytest.mark.parametrize("method", ["put", "post", "patch", "delete"])
def test_a_route_that_changes_something_cannot_be_made_without_a_dry_run(method: str) -> None:
    make = getattr(Routes(), method)
    with pytest.raises(Misconfigured, match="/thing changes something"):
        make("/thing", role=Role.OPERATOR)(no_checks)
    make("/thing", role=Role.OPERATOR)(changing)


def test_an_application_with_a_route_that_says_no_role_is_not_built() -> None:
    plain = APIRouter()
    plain.add_api_route("/plain", no_checks)
    inner = Routes()
    inner.include_router(plain)
    socket = Routes()
    socket.add_api_websocket_route("/socket", no_checks)
    mounted = FastAPI()
    mounted.mount("/mounted", FastAPI())
    for router in (plain, inner, socket, mounted.router):
        with pytest.raises(Misconfigured, match="declares no role"):
            build_app([router], no_checks, HttpSettings.local())


def test_what_a_route_needs_is_in_its_description_too() -> None:
    routes = Routes()
    routes.put("/thing", role=Role.OPERATOR, openapi_extra={"x-more": 1})(changing)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.include_router(routes, prefix="/v1")
    assert list(guarded_routes(app)) == [("/v1/thing", frozenset({"PUT"}), Role.OPERATOR)]
    operation = app.openapi()["paths"]["/v1/thing"]["put"]
    assert (operation["x-required-role"], operation["x-more"]) == ("operator", 1)
    assert operation["security"] == [{"token": []}]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (HttpSettings(), Principal("local", Role.ADMIN)),
        (HttpSettings(host=EVERYBODY, **TLS), Principal("anonymous", Role.VIEWER)),
        (HttpSettings(host=EVERYBODY, tls_client_ca=Path("ca"), **TLS), Principal("client certificate", Role.VIEWER)),
        (HttpSettings(token=SecretStr("x")), None),
        (HttpSettings(token=SecretStr("x"), tls_client_ca=Path("ca"), **TLS), None),
    ],
)
def test_a_request_without_a_token_has_this_principal(settings: HttpSettings, expected: Principal | None) -> None:
    assert Authenticator(settings).authenticate({}) == expected


def test_a_certificate_is_a_viewer_unless_the_file_gives_its_name_a_role(tmp_path: Path) -> None:
    asking = HttpSettings(host=EVERYBODY, tls_client_ca=Path("ca"), **TLS)
    assert Authenticator(asking).authenticate({}, "robot") == Principal("robot", Role.VIEWER)
    assert Authenticator(asking).authenticate({}, "a name\nwith a line") == Principal("client certificate", Role.VIEWER)
    path = tmp_path / "tokens"
    path.write_text("robot operator certificate\nanna admin a-token-for-anna\n")
    path.chmod(0o600)
    gate = Authenticator(asking.model_copy(update={"tokens_file": path}))
    assert gate.authenticate({}, "robot") == Principal("robot", Role.OPERATOR)
    assert gate.authenticate({"authorization": "Bearer a-token-for-anna"}, "robot") == Principal("anna", Role.ADMIN)
    assert gate.authenticate({"authorization": "Bearer certificate"}, "robot") is None, "what is shown counts"
    for nobody in ("anna", "robo", "", None):
        assert gate.authenticate({}, nobody) is None
    assert gate.holder("certificate") is None


def test_without_a_client_ca_no_name_of_a_certificate_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("robot operator certificate\n")
    assert Authenticator(HttpSettings(tokens_file=path)).authenticate({}, "robot") is None
    assert Authenticator(HttpSettings(host=EVERYBODY, **TLS)).authenticate({}, "robot") == Principal(
        "anonymous", Role.VIEWER
    )


def test_headers_and_metadata_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("anna viewer a-token-for-anna\n")
    path.chmod(0o600)
    gate = Authenticator(HttpSettings(token=SecretStr("the single one"), tokens_file=path))
    assert gate.authenticate({"authorization": "Bearer a-token-for-anna"}) == Principal("anna", Role.VIEWER)
    assert gate.authenticate({"authorization": "bearer the single one"}) == Principal("token", Role.ADMIN)
    for wrong in ("a-token-for-anna", "Basic a-token-for-anna", "Bearer", "Bearer a-token-for-ann", ""):
        assert gate.authenticate({"authorization": wrong}) is None


def test_the_tokens_file_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLACKWATER_TOKENS_FILE", str(tmp_path / "none"))
    settings = HttpSettings()
    assert settings.tokens_file == tmp_path / "none"
    assert HttpSettings.local().tokens_file is None
    with pytest.raises(Misconfigured, match="No such file"):
        Authenticator(settings)


def test_a_refusal_says_what_is_needed_and_what_is_held() -> None:
    with pytest.raises(Unauthorized, match="Bearer TOKEN"):
        authenticate(Role.VIEWER, None)
    with pytest.raises(Forbidden, match="needs the role operator, anna has the role viewer"):
        authenticate(Role.OPERATOR, Principal("anna", Role.VIEWER))
    authenticate(OPEN, None)


def test_an_rpc_without_a_role_is_closed() -> None:
    roles = RpcRoles({"/s.S/Get": Role.VIEWER, "/s.S/Check": OPEN})
    assert roles.required_role("/s.S/Get") is Role.VIEWER
    assert roles.missing(["/s.S/Get", "/s.S/New"]) == ["/s.S/New"]
    with pytest.raises(Forbidden, match=r"/s\.S/New"):
        roles.required_role("/s.S/New")
