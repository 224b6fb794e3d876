"""What stands in for images that cannot be pulled here.

`slackwater:local` and `slackwater-agent` are taken from their stages of the Dockerfile (user, folder, environment,
entry point, health check). They hold the wheel of this checkout, built as the Dockerfile
builds it, and those packages of this virtual environment that the lock of the image names.
`postgres:18` and `nats:2` are the servers of our wheels, begun as the entry points of those images begin theirs.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from containers import Bind
from tests.support.dockerfile import stage_of

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
    own = slackwater(folder, "image", "requirements-image.lock")
    agent = slackwater(folder, "agent", "requirements-agent.lock")
    return {
        "slackwater:local": own,
        "slackwater:latest": own,
        "slackwater-agent:latest": agent,
        "postgres:18": postgres(),
        "nats:2": nats(),
    }


def slackwater(folder: Path, stage: str, lock: str) -> Image:
    """A final stage of the Dockerfile. It holds the packages of its lock and nothing else."""
    instructions = stage_of(DOCKERFILE.read_text(), stage)

    def last(word: str) -> str:
        return [text for name, text in instructions if name == word][-1]

    variables = dict(pair.split("=", 1) for pair in last("ENV").split())
    environment = {name: value.replace("$PATH", BASE_PATH) for name, value in variables.items()}
    library = f"/opt/slackwater/lib/python3.{sys.version_info.minor}/site-packages"
    health = [text for name, text in instructions if name == "HEALTHCHECK"]
    made = [text for name, text in instructions if name == "RUN"]
    return Image(
        entrypoint=json.loads(last("ENTRYPOINT")),
        environment=environment | {"PYTHONPATH": "/opt/wheel"},
        user=last("USER"),
        folder=last("WORKDIR"),
        health=json.loads(health[-1].split("CMD", 1)[1]) if health else (),
        files={
            "/opt/slackwater/bin/slackwater": (
                "#!/opt/slackwater/bin/python\nimport sys\nfrom slackwater.cli.main import main\nsys.exit(main())\n"
            ),
            "/opt/slackwater/pyvenv.cfg": (VENV / "pyvenv.cfg").read_text(),
        },
        folders={
            path: (int(owner), int(mode, 8))
            for text in made
            for owner, mode, path in re.findall(r"install -d -o (\d+) -g \d+ -m (\d+) (\S+)", text)
        },
        links={"/opt/slackwater/bin/python": str(_python())},
        binds={
            "/opt/wheel": Bind(wheel(folder), read_only=True),
            library: Bind(packages(ROOT / lock, folder / lock), read_only=True),
            **_interpreter(),
        },
    )


def packages(lock: Path, folder: Path) -> Path:
    """The distributions of a lock, copied from this virtual environment as pip would install them."""
    if folder.exists():
        return folder
    for name in sorted(set(re.findall(r"^([\w.-]+)==", lock.read_text(), re.MULTILINE))):
        try:
            files = importlib.metadata.distribution(name).files or ()
        except importlib.metadata.PackageNotFoundError:
            continue  # its marker names another platform
        for file in files:
            if ".." not in file.parts and (source := Path(str(file.locate()))).is_file():
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
    return folder


def wheel(folder: Path) -> Path:
    """What `pip install` of the Dockerfile puts into the images, unpacked."""
    if (folder / "wheel").exists():
        return folder / "wheel"
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
