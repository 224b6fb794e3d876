"""docs/how-to/secure.md, said line by line in one shell: what a step names, the steps before it have made."""

from __future__ import annotations

import re
import shlex
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.runtime.authority import Authority
from slackwater.runtime.embedded_nats import find_nats_server
from slackwater.runtime.tokens import read_tokens

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how-to" / "secure.md").read_text()
pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl on PATH (Debian: apt-get install openssl)"
)


def blocks() -> list[str]:
    """What stands in the page's fences, in order."""
    return re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def variables_of(block: str) -> dict[str, str]:
    """Files that a block exports, by variable."""
    return dict(re.findall(r"(SLACKWATER_\w+)=(\S+)", block))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """After the steps that make files; where the last of them left the shell."""
    work = tmp_path_factory.mktemp("page")
    certificates, tokens, _, _, _, broker, *_ = blocks()
    configure = broker[: broker.index("nats-server -c")].replace(
        "slackwater ", f"{shlex.quote(sys.executable)} -m slackwater.cli "
    )
    assert (certificates.count("\nissue "), "nats-config" in configure) == (3, True)
    script = "\n".join(["set -e", certificates, tokens, configure, 'pwd > "$START/here"'])
    environment = {
        "PATH": "/usr/bin:/bin",
        "START": str(work),
        "HOME": str(work),
        "PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}",
    }
    done = subprocess.run(
        ["bash", "-c", script], cwd=work, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return Path((work / "here").read_text().strip())


def test_every_file_that_a_step_names_is_there(folder: Path) -> None:
    _, _, http, _, clients, _, service, _ = blocks()[:8]
    named = [path for path in variables_of(http).values() if path.startswith("$PWD")]
    named += [path for name, path in variables_of(service).items() if name.endswith(("_CA", "_FILE", "_KEY", "FICATE"))]
    named += [word for word in clients.split() if word.endswith((".pem", ".key", ".token"))]
    assert len(named) >= 10
    missing = [path for path in named if not (folder / path.replace("$PWD/", "")).is_file()]
    assert missing == []
    assert [token.principal.name for token in read_tokens(folder / "tokens")] == ["alice", "grafana"]


def test_the_broker_takes_the_configuration_of_the_page(folder: Path) -> None:
    command = [str(find_nats_server()), "-t", "-c", "nats/nats-server.conf"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("whose", ["page", "secrets"])
def test_clients_that_look_closely_believe_the_certificates(whose: str, folder: Path, tmp_path: Path) -> None:
    """Python 3.13 and newer verify with VERIFY_X509_STRICT; this is the same in the openssl of any age."""
    if whose == "page":
        root, issued = folder / "pki" / "ca.pem", [folder / "pki" / f"{name}.pem" for name in ("api", "nats", "agent")]
    else:
        root, issued = tmp_path / "ca.crt", [tmp_path / "tls.crt"]
        Authority(tmp_path).issue(issued[0], tmp_path / "tls.key", ["nats"])
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(root), *map(str, issued)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ssl.create_default_context(cafile=root)
