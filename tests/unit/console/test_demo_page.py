"""The page of the last demo run, from the files that the demo writes."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from console_app import console_app
from demo_files import REPORT, demo_folder, write_summary
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.console.adapters.demo_files import DemoFiles
from slackwater.console.edge.stream import Streams
from slackwater.demo.summary import SceneSummary


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return demo_folder(tmp_path)


async def get(demo: Path, path: str) -> httpx2.Response:
    clock = FakeClock()
    app = console_app(MemoryReadModel(), Streams(MemoryBus(clock=clock), clock), clock, demo=DemoFiles(demo))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return await client.get(path)


async def test_the_page_shows_tables_and_picture_of_every_scene(folder: Path) -> None:
    page = (await get(folder, "/demo")).text
    assert all(f">{cell}</" in page for row in REPORT.rows for cell in row)
    for compared in REPORT.comparisons:
        assert f">{compared.figure}</th>".replace("'", "&#39;") in page
        assert f">{compared.without}</td>" in page
        assert f"{compared.word} ({compared.why})" if compared.why else f">{compared.word}</td>" in page
    assert 'src="/demo/pictures/lend.svg?' in page
    assert "edge-7 (2 CPUs, Linux 6.1, cgroups v2)" in page
    assert "Left out: it needs 40 s, and 3 s are left." in page
    assert "/demo/pictures/cpu.svg" not in page


async def test_a_picture_is_served_of_scenes_of_this_run_alone(folder: Path) -> None:
    shown = await get(folder, "/demo/pictures/lend.svg")
    assert (shown.status_code, shown.headers["content-type"]) == (200, "image/svg+xml")
    assert "batch pods placed (of 8)" in shown.text
    for name in ("cpu", "policies", "..%2Fsecret", "..%2f..%2fsecret"):
        assert (await get(folder, f"/demo/pictures/{name}.svg")).status_code == 404


async def test_the_overview_names_the_run_and_its_scenes(folder: Path) -> None:
    page = (await get(folder, "/")).text
    assert "lend shown, cpu left out" in page
    assert 'href="/demo"' in page


@pytest.mark.parametrize("content", [None, "{", "[]", '{"driver": "simulated", "started_at": "2026-01-05T10:00:00Z"}'])
async def test_without_scenes_the_page_says_what_to_run(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run-summary.json").write_text(content)
    answer = await get(tmp_path / "demo", "/demo")
    assert (answer.status_code, "make run" in answer.text) == (200, True)
    assert 'href="/demo"' not in (await get(tmp_path / "demo", "/")).text


async def test_a_scene_is_shown_once_a_turn_of_it_is_over(folder: Path) -> None:
    write_summary(folder, lend=REPORT, cpu=SceneSummary(plan="a service beside batch"))
    assert "lend shown, cpu pending" in (await get(folder, "/")).text


async def test_failed_scenes_and_those_that_were_left_out_say_so(folder: Path) -> None:
    write_summary(
        folder,
        lend=SceneSummary(failures=("lend: not kept: an offer's decision comes",)),
        memory=SceneSummary(left_out="900 MiB of memory are available"),
    )
    page = (await get(folder, "/demo")).text
    assert "Failed: lend: not kept: an offer&#39;s decision comes." in page
    assert "Left out: 900 MiB of memory are available." in page
    assert "<img" not in page
