from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import Misconfigured
from slackwater.runtime.roles import OPEN, Needed, Principal, Role
from slackwater.runtime.tokens import Token, TokensFile, certified, digest_of, parse_tokens, read_tokens, whose

ANNA, CARL = "anna-has-a-long-token", "carl-has-a-long-token"
CONTENT = f"# users\nanna operator {ANNA}\n\ncarl viewer sha256:{hashlib.sha256(CARL.encode()).hexdigest()}\n"


def file_with(path: Path, text: str, mode: int = 0o600) -> Path:
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_is_found_whether_the_file_has_it_or_its_digest() -> None:
    tokens = parse_tokens(CONTENT, "tokens")
    assert whose(ANNA, tokens) == Principal("anna", Role.OPERATOR)
    assert whose(CARL, tokens) == Principal("carl", Role.VIEWER)
    assert whose("", tokens) is None
    assert whose(hashlib.sha256(CARL.encode()).hexdigest(), tokens) is None
    assert whose("\udcff\N{SNOWMAN}", tokens) is None
    assert ANNA not in repr(tokens)


def test_every_token_is_compared_even_after_one_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr("slackwater.runtime.tokens.hmac.compare_digest", compare)
    tokens = tuple(Token(Principal(name, Role.VIEWER), digest_of(name)) for name in ("first", "second", "third"))
    assert whose("first", tokens) == Principal("first", Role.VIEWER)
    assert len(compared) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("anna viewer", "line 1: has 2 words"),
        ("anna viewer secret-of-anna-1 more", "has 4 words"),
        ("\nanna root secret-of-anna-1", "line 2: the role .* viewer, operator, admin, agent"),
        ("an/na viewer secret-of-anna-1", "the name may have"),
        ("anna viewer short-secret", "openssl rand"),
        ("anna viewer sha256:secret", "64 lower-case hex digits"),
        ("anna viewer secret-of-anna-1\ncarl viewer secret-of-anna-1", "line 2: this token is already"),
        ("anna viewer secret-of-anna-1\nanna admin secret-of-anna-2", "line 2: anna already has another role"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_never_shown(text: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=said) as refused:
        parse_tokens(text, "tokens")
    assert "secret" not in refused.value.message


def test_one_name_may_have_two_tokens_while_one_replaces_the_other() -> None:
    tokens = parse_tokens("anna viewer old-token-of-anna\nanna viewer new-token-of-anna\n", "tokens")
    assert whose("old-token-of-anna", tokens) == whose("new-token-of-anna", tokens) == Principal("anna", Role.VIEWER)


def test_a_certificate_has_a_role_and_is_no_secret(tmp_path: Path) -> None:
    lines = "robot operator certificate\nrobot operator certificate\nrobot operator sha256:" + "0" * 64 + "\n"
    tokens = read_tokens(file_with(tmp_path / "tokens", lines, 0o644))
    assert certified("robot", tokens) == Principal("robot", Role.OPERATOR)
    assert certified("anna", tokens) is None
    assert whose("certificate", tokens) is None
    assert len(tokens) == 2
    with pytest.raises(Misconfigured, match="another role"):
        parse_tokens("robot operator certificate\nrobot admin certificate\n", "tokens")


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o602])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(Misconfigured, match="chmod"):
        read_tokens(file_with(tmp_path / "tokens", CONTENT, mode))


def test_digests_may_be_readable_by_all_and_secrets_by_the_group(tmp_path: Path) -> None:
    digests = "\n".join(line for line in CONTENT.splitlines() if "sha256" in line)
    assert len(read_tokens(file_with(tmp_path / "digests", digests, 0o644))) == 1
    assert len(read_tokens(file_with(tmp_path / "tokens", CONTENT, 0o440))) == 2


def test_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    path = file_with(tmp_path / "tokens", CONTENT)
    tokens = TokensFile(path)
    assert whose(ANNA, tokens.tokens()) is not None
    file_with(tmp_path / "next", "anna operator another-token-of-anna\n").replace(path)
    assert whose(ANNA, tokens.tokens()) is None
    assert whose("another-token-of-anna", tokens.tokens()) == Principal("anna", Role.OPERATOR)
    file_with(tmp_path / "next", "# no user any more\n").replace(path)
    assert tokens.tokens() == ()


def test_a_file_that_became_unusable_or_went_away_changes_nothing(tmp_path: Path) -> None:
    path = file_with(tmp_path / "tokens", CONTENT)
    tokens = TokensFile(path)
    file_with(path, "nonsense of more bytes", 0o600)
    assert whose(ANNA, tokens.tokens()) is not None
    path.unlink()
    assert whose(ANNA, tokens.tokens()) is not None
    file_with(path, "anna viewer once-more-a-token\n")
    assert whose(ANNA, tokens.tokens()) is None


def test_a_file_must_be_there_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="No such file"):
        TokensFile(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(Misconfigured, match="UTF-8"):
        TokensFile(tmp_path / "binary")


NEEDED: list[Needed] = [OPEN, *Role]


@given(st.sampled_from(Role), st.sampled_from(NEEDED))
def test_users_roles_contain_each_other_and_the_agents_stands_apart(held: Role, needed: Needed) -> None:
    users = [Role.VIEWER, Role.OPERATOR, Role.ADMIN]
    if needed == OPEN:
        expected = True
    elif Role.AGENT in (held, needed):
        expected = held is needed
    else:
        expected = users.index(held) >= users.index(needed)
    assert held.allows(needed) is expected
