"""What the code offers to a deployment: variables, secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from deploy_files import NODE, ROOT, filled
from pydantic import AliasChoices
from pydantic_settings import BaseSettings

from slackwater.bus.connect.access import NatsAccess
from slackwater.cli.composition import PARTS, load
from slackwater.cli.main import app
from slackwater.cli.secret_files import Deployment, write_secrets
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.runtime.settings import HttpSettings, RpcSettings
from slackwater.runtime.state import VARIABLE as STATE_VARIABLE


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = filled(yaml.safe_load((ROOT / "docker-compose.yml").read_text()))
    return found


@pytest.fixture(scope="session")
def variables() -> set[str]:
    """Every variable that some part of the product reads."""
    classes: list[type[BaseSettings]] = [HttpSettings, RpcSettings, NatsAccess]
    classes += [load(f"slackwater.{part.name}.settings:{part.settings}") for part in PARTS]
    classes.append(KubernetesSettings)
    found = {STATE_VARIABLE}
    for settings in classes:
        prefix = str(settings.model_config.get("env_prefix", ""))
        for name, field in settings.model_fields.items():
            alias = field.validation_alias
            names = alias.choices if isinstance(alias, AliasChoices) else [prefix + name]
            found |= {str(one).upper() for one in names}
    for command in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]  # a click group
        for parameter in command.params:
            found |= {parameter.envvar} if isinstance(parameter.envvar, str) else set()
    return found | {"SLACKWATER_POSTGRES_DSN_FILE", "SLACKWATER_NATS_URL_FILE"}


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `slackwater secrets` writes for the compose file."""
    folder = tmp_path_factory.mktemp("secrets")
    write_secrets(Deployment(folder, (NODE,), True, "postgres", ("nats",), True))
    return folder
