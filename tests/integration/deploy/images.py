"""What stands in for images that cannot be pulled here.

`slackwater:local` is taken from its Dockerfile (user, folder, environment, entry point, health check); in it is the
wheel of this checkout, built as the Dockerfile builds it, beside the libraries of this virtual environment.
`postgres:18` and `nats:2` are the servers of our wheels, begun as the entry points of those images begin theirs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from containers import Bind

from slackwater.runtime.embedded_nats import find_nats_server
from slackwater.runtime.embedded_postgres import installed_binaries

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VENV = Path(sys.prefix)
PYTHON_HOME = Path(sys.base_prefix).resolve()

POSTGRES_BEGINS = """\
#!/bin/sh
# As docker-entrypoint.sh of the official image: make a cluster once, as the user postgres, then serve.
set -e
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" /var/run/postgresql
  chown -R postgres:postgres /var/lib/postgresql /var/run/postgresql
  exec setpriv --reuid 999 --regid 999 --clear-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"; chmod 700 "$PGDATA"
  initdb --pgdata "$PGDATA" --username "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" --auth-local trust \
    --auth-host trust --no-sync --no-instructions >/dev/null
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE \\"$POSTGRES_DB\\"" | postgres --single -D "$PGDATA" postgres >/dev/null
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql -c fsync=off
"""


@dataclass(frozen=True)
class Image:
    """What a container gets from its image."""

    entrypoint: Sequence[str]
    environment: Mapping[str, str]
    user: str = "0:0"
    folder: str = "/"
    health: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    binds: Mapping[str, Bind] = field(default_factory=dict)


def images(folder: Path) -> dict[str, Image]:
    """By name; the wheel is built below `folder`."""
    own = slackwater(folder)
    return {"slackwater:local": own, "slackwater:latest": own, "postgres:18": postgres(), "nats:2": nats()}


def slackwater(folder: Path) -> Image:
    """Held to the Dockerfile: what it does not say, the image does not have."""
    said = DOCKERFILE.read_text().split("AS image", 1)[1].replace("\\\n", " ")

    def last(word: str) -> str:
        return re.findall(rf"^{word} (.*)$", said, re.MULTILINE)[-1]

    given = dict(pair.split("=", 1) for pair in last("ENV").split())
    environment = {name: value.replace("$PATH", BASE_PATH) for name, value in given.items()}
    library = f"/opt/slackwater/lib/python3.{sys.version_info.minor}/site-packages"
    return Image(
        entrypoint=json.loads(last("ENTRYPOINT")),
        environment=environment | {"PYTHONPATH": "/opt/wheel"},
        user=last("USER"),
        folder=last("WORKDIR"),
        health=json.loads(last("HEALTHCHECK").split("CMD", 1)[1]),
        files={
            "/opt/slackwater/bin/slackwater": (
                "#!/opt/slackwater/bin/python\nimport sys\nfrom slackwater.cli.main import main\nsys.exit(main())\n"
            ),
            "/opt/slackwater/pyvenv.cfg": (VENV / "pyvenv.cfg").read_text(),
        },
        folders={
            path: (int(owner), int(mode, 8))
            for owner, mode, path in re.findall(r"install -d -o (\d+) -g \d+ -m (\d+) (\S+)", said)
        },
        links={"/opt/slackwater/bin/python": str(_python())},
        binds={
            "/opt/wheel": Bind(wheel(folder), read_only=True),
            library: Bind(_site_packages(), read_only=True),
            **_interpreter(),
        },
    )


def wheel(folder: Path) -> Path:
    """What `pip install .` of the Dockerfile puts into the image, unpacked."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, check=True, capture_output=True, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "wheel")
    return folder / "wheel"


def postgres() -> Image:
    binaries = installed_binaries()
    inside = "/opt/postgres" / binaries.relative_to(_site_packages())
    return Image(
        entrypoint=["/docker-entrypoint.sh"],
        environment={
            "PATH": f"{inside}:{BASE_PATH}",
            "PGDATA": "/var/lib/postgresql/18/docker",
            "PGHOST": "/var/run/postgresql",  # compiled into the clients of the official image
        },
        files={"/docker-entrypoint.sh": POSTGRES_BEGINS},
        binds={"/opt/postgres": Bind(_site_packages(), read_only=True)},
    )


def nats() -> Image:
    return Image(
        entrypoint=["/nats-server"],
        environment={"PATH": BASE_PATH},
        binds={"/nats-server": Bind(find_nats_server(), read_only=True)},
    )


def _site_packages() -> Path:
    (found,) = (VENV / "lib").glob("python3*/site-packages")
    return found.resolve()


def _python() -> Path:
    return Path(sys.executable).resolve()


def _interpreter() -> dict[str, Bind]:
    """Where it lies, if that is not in the folders of the system."""
    return {} if Path("/usr") == PYTHON_HOME else {str(PYTHON_HOME): Bind(PYTHON_HOME, read_only=True)}
