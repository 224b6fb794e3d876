"""Options for the connection to a Prometheus, and the client made from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.credentials import Credentials
from slackwater.model.errors import InvalidInput

if TYPE_CHECKING:
    import httpx2

UrlOption = Annotated[
    str | None, typer.Option("--prometheus", metavar="URL", help="Prometheus with cAdvisor and kube-state-metrics")
]
SelectorOption = Annotated[
    str,
    typer.Option(
        "--selector", metavar="MATCHERS", help='reads only series that match, such as cluster="eu-1"; all of them'
    ),
]
SinceOption = Annotated[str, typer.Option("--since", metavar="7d", help="age of the first sample: 7d, 36h, 90m")]
StepOption = Annotated[str, typer.Option("--step", metavar="5m", help="interval of points: 5m, 60s")]
BearerOption = Annotated[
    Path | None, typer.Option("--bearer-token-file", metavar="FILE", help="file with the token for Prometheus")
]
CaOption = Annotated[Path | None, typer.Option("--prometheus-ca", metavar="FILE", help="trusted CA certificate")]
CertOption = Annotated[Path | None, typer.Option("--prometheus-cert", metavar="FILE", help="client certificate (mTLS)")]
KeyOption = Annotated[Path | None, typer.Option("--prometheus-key", metavar="FILE", help="its key")]
PROOF_OPTIONS = ("--bearer-token-file", "--prometheus-ca", "--prometheus-cert", "--prometheus-key")
"""The option names that `Credentials` uses in messages."""
InsecureOption = Annotated[
    bool, typer.Option("--insecure-skip-verify", help="accept any certificate; unsafe on shared networks")
]
TimeoutOption = Annotated[str, typer.Option("--timeout", metavar="30s", help="timeout of each request")]
RetriesOption = Annotated[int, typer.Option("--retries", help="retries of a failed request")]


def client(url: str, proof: Credentials, timeout_seconds: int, *, insecure: bool) -> httpx2.Client:
    """A client of this server only: it uses no proxy of the environment and no other token. Raises InvalidInput,
    Misconfigured.
    """
    import httpx2

    from slackwater.client.bounded_answers import bounded

    try:
        address = httpx2.URL(url.rstrip("/")) if re.fullmatch(r"https?://[^\s]+", url) else None
    except httpx2.InvalidURL:
        address = None
    if address is None:
        raise InvalidInput(
            f"--prometheus: {url!r} is not an address; use the form http://prometheus:9090", field="prometheus"
        )
    token = proof.token()
    if token and address.userinfo:
        raise InvalidInput(
            "--prometheus: names a user, and --bearer-token-file is given as well; give only one of them",
            field="prometheus",
        )
    return httpx2.Client(
        base_url=address.copy_with(userinfo=b""),  # without the user, because pages and messages show it
        auth=httpx2.BasicAuth(address.username, address.password) if address.userinfo else None,
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=timeout_seconds,
        trust_env=False,
        event_hooks={"response": [bounded]},
        verify=not insecure and proof.verify(url),
    )


def seconds_of(text: str, option: str) -> int:
    """Seconds of a duration such as `90s`, `5m`, `36h` or `7d`. Raises InvalidInput."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None or not int(match[1]):
        raise InvalidInput(
            f"--{option}: {text!r} is not allowed; allowed: a duration such as 90s, 5m, 36h or 7d", field=option
        )
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]
