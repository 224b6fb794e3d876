"""The example of the documentation, installed as a distribution of its own, is a model like ours."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from policy_scene import Replica, model, policy
from tests.support.resources import MemoryResourceStore
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.prediction.adapters.predictors.catalogue import Catalogue, reference_page
from slackwater.prediction.adapters.predictors.registry import BUILT_IN, GROUP, make_model, names, origin, predictor

DOCS = Path(__file__).resolve().parents[3] / "docs"


def example() -> tuple[str, str]:
    """The module of docs/how-to/choose-a-model.md with its imports, and its entry point."""
    text = (DOCS / "how-to" / "choose-a-model.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    bases = re.findall(r"^class \w+\((\w+)\):  # (slackwater[\w.]+)$", code, re.MULTILINE)
    (entry,) = re.findall(r"^# (fixed-share) = \"your_module:(\w+)\"$", code, re.MULTILINE)
    imports = ["from pydantic import Field", *(f"from {module} import {name}" for name, module in bases)]
    return "\n".join([*imports, code]), f"{entry[0]} = your_module:{entry[1]}"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What an installer leaves behind: the module, and the metadata of the distribution beside it."""
    code, entry = example()
    (tmp_path / "your_module.py").write_text(code)
    metadata = tmp_path / "your_models-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: your-models\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{entry}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("your_module", None)


def test_the_example_is_as_short_as_is_said() -> None:
    code = [line for line in example()[0].splitlines() if line.strip() and not line.startswith(("#", "from "))]
    assert len(code) <= 12


@pytest.mark.usefixtures("installed")
def test_a_model_of_another_distribution_is_found_described_and_made() -> None:
    assert "fixed-share" in names()
    assert (origin("fixed-share"), origin("histogram")) == ("your-models 1.2", "slackwater")
    made = make_model("fixed-share", {"share": 0.5}, "cpu")
    assert made.name == "fixed-share"
    assert predictor("fixed-share").settings.model_fields["share"].description == "of the limits"
    found = Catalogue().one("fixed-share")
    assert found.schema["properties"]["share"]["default"] == 0.7
    assert "fixed-share" not in reference_page()


@pytest.mark.usefixtures("installed")
def test_the_command_line_shows_its_settings() -> None:
    shown = CliRunner().invoke(app, ["backtest", "--list-models"]).stdout
    assert "  share=0.7  of the limits" in shown


@pytest.mark.usefixtures("installed")
async def test_a_policy_can_choose_it() -> None:
    here = await Replica(MemoryResourceStore()).open()
    await here.change.put(policy("gold", models={"cpu": model("fixed-share", share=0.4)}))
    assert here.in_force.policies.of("gold").cpu.settings == {"share": 0.4}


def test_every_setting_of_ours_is_on_the_page_and_in_the_help() -> None:
    page = (DOCS / "reference" / "predictors.md").read_text()
    shown = CliRunner().invoke(app, ["backtest", "--list-models"]).stdout
    for name in BUILT_IN:
        assert f"## {name}\n" in page
        for setting, field in predictor(name).settings.model_fields.items():
            assert f"- `{setting}` (" in page
            assert f"  {setting}={field.default}  {field.description}" in shown
