"""Every page renders: with nothing known, with half, and with the whole story. How it looks: tests/browser."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from console_app import console_app
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import FLEET, SURGE, identifier, story

import slackwater.console
from slackwater.console.domain.views import IntentView
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.node_described import NodeDescribed


def client_of(model: MemoryReadModel, streams: Streams, clock: FakeClock) -> httpx2.AsyncClient:
    app = console_app(model, streams, clock)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1")


@pytest.fixture
def pages(told_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    return told_client


async def text(client: httpx2.AsyncClient, path: str, status: int = 200) -> str:
    response = await client.get(path)
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("text/html")
    return response.text


async def test_the_fleet_page_of_an_empty_system_says_what_to_do(
    model: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    async with client_of(model, streams, clock) as client:
        assert "slackwater agent" in await text(client, "/")


async def test_a_node_that_was_only_described_has_a_page(
    model: MemoryReadModel, streams: Streams, clock: FakeClock, record: RecordEvents
) -> None:
    events = [event for event in story(clock.now()) if isinstance(event.data, NodeDescribed)]
    await record.described(events)
    async with client_of(model, streams, clock) as client:
        assert "edge-7" in await text(client, "/")
        assert "Nothing has been offered yet" in await text(client, "/nodes/edge-7")


async def test_the_fleet_page_names_every_node_and_links_it(pages: httpx2.AsyncClient) -> None:
    body = await text(pages, "/")
    assert all(f'href="/nodes/{node.name}"' in body for node in FLEET)


async def test_the_node_page_shows_forecast_against_actual_and_how_good_forecasts_have_been(
    pages: httpx2.AsyncClient,
) -> None:
    body = await text(pages, "/nodes/edge-7")
    for resource in ("CPU", "memory"):
        assert f'aria-label="Expected prod {resource} peak against prod usage over time"' in body
    assert "edge over" in body, "the surge went above what was expected"
    rows = [cells_of(row) for row in re.findall(r"<tr>.*?</tr>", section(body, "forecast"), re.DOTALL)]
    assert rows == [
        ["Resource", "Accepted", "Measured", "Machine-days", "Risk factor"],
        ["CPU", "1.0 %", "0.64 %", "312", "0.24"],
        ["Memory", "\N{EN DASH}", "2.10 %", "312", "0.15"],
    ]
    assert "workload-profile 1, by policy default generation 3</p>" in body
    assert "94 % of what prod may use is known" in body
    assert f'href="/decisions/{identifier("edge-7", "prediction", 900)}"' in body


async def test_a_rate_that_is_clearly_missed_stands_out(
    told_anew: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    (latest,) = (await told_anew.forecasts("edge-7", clock.now(), clock.now()))[-1:]
    missed = replace(latest.calibrations["cpu"], measured_rate=0.03)
    await told_anew.save_forecasts([replace(latest, event_id="missed", calibrations={"cpu": missed})])
    async with client_of(told_anew, streams, clock) as client:
        assert '<td class="num bad" data-name="Measured">3.00 %</td>' in await text(client, "/nodes/edge-7")
    few = replace(missed, machine_days=20.0)
    assert (missed.is_too_low, few.is_too_low) == (True, False)


async def test_a_prediction_from_before_models_could_be_chosen_has_its_chart_and_no_more(
    told_anew: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    (latest,) = (await told_anew.forecasts("edge-7", clock.now(), clock.now()))[-1:]
    old = replace(latest, event_id="old", version="", calibrations={}, confidence=0.0, cause="")
    await told_anew.save_forecasts([old])
    async with client_of(told_anew, streams, clock) as client:
        body = await text(client, "/nodes/edge-7")
    assert "windows seen" in body
    assert "Machine-days" not in body


async def test_the_record_of_a_prediction_shows_its_four_terms(pages: httpx2.AsyncClient) -> None:
    body = await text(pages, f"/decisions/{identifier('edge-7', 'prediction', 840)}")
    found = re.findall(r'<tr><th scope="row">(\w+)</th>', section(body, "terms"))
    assert found == ["seen_together", "coincidence", "novelty", "noise", "Result"]
    assert "the terms add up" in body
    assert '<th scope="row">knob</th>' in body


def section(body: str, name: str) -> str:
    """A card of the page by its title's id."""
    return body.partition(f'aria-labelledby="{name}">')[2].partition("</section>")[0]


def cells_of(row: str) -> list[str]:
    """The plain text of each cell."""
    return [
        html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
    ]


async def test_the_node_page_explains_the_offer_and_marks_what_was_done(pages: httpx2.AsyncClient) -> None:
    body = await text(pages, "/nodes/edge-7")
    assert "the terms add up" in body
    throttle = identifier("edge-7", "throttle", SURGE[0] + 25)
    assert f'href="/decisions/{throttle}"' in body


async def test_rounded_amounts_of_memory_are_followed_by_the_sum_in_bytes(pages: httpx2.AsyncClient) -> None:
    body = await text(pages, "/nodes/edge-7?subject=batch-memory")
    (said,) = re.findall(r'<p class="equation"><code>(.*?) bytes</code></p>', section(body, "offer"))
    plain = re.sub(r"\s", "", said).replace("\N{MINUS SIGN}", "-")
    terms, _, result = plain.partition("=")
    assert sum(int(each) for each in re.findall(r"[+-]?\d+", terms)) == int(result)


async def test_the_decision_page_leads_from_cause_to_effect(pages: httpx2.AsyncClient) -> None:
    body = await text(pages, f"/decisions/{identifier('edge-7', 'throttle', SURGE[0] + 25)}")
    places = [
        body.index(word) for word in ("usage.reported", "decision.recorded</", "intent.observed</", "effect.meas")
    ]
    assert places[0] < places[2]
    assert "encode-video-0" in body


async def test_what_was_decided_on_another_day_is_shown_with_its_day(
    told: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    async def shown(*paths: str) -> list[str]:
        async with client_of(told, streams, clock) as client:
            return [re.sub(r"<[^>]+>", "", await text(client, path)) for path in paths]

    throttle = identifier("edge-7", "throttle", SURGE[0] + 25)
    paths = (f"/decisions/{throttle}", "/nodes/edge-7")
    day = f"{clock.now():%Y-%m-%d} "
    at = r"\d\d:\d\d:\d\d"
    for body in await shown(*paths):
        assert not re.search(day + at, body), "of today the time is enough"
    await clock.advance(2 * 86_400)
    decision, node = await shown(*paths)
    assert re.search(rf"mode throttle · {day}{at}", decision)
    feed = node.partition("Last actions")[2].partition("Pods")[0]
    assert len(re.findall(day + at, feed)) == len(re.findall(at, feed)) > 0


async def test_parts_are_the_inside_of_their_pages(pages: httpx2.AsyncClient) -> None:
    for path in ("/", "/nodes/edge-7", f"/decisions/{identifier('edge-7', 'offer', 60)}"):
        part, whole = await text(pages, f"{path}?part=true"), await text(pages, path)
        assert "<html" not in part
        assert part.strip() in whole


async def test_a_page_that_is_not_there_says_so_in_html(pages: httpx2.AsyncClient) -> None:
    body = await text(pages, "/nodes/edge-77", 404)
    assert "did you mean 'edge-7'" in html.unescape(body)
    await text(pages, "/decisions/none", 404)


async def test_pages_load_only_what_this_server_has(pages: httpx2.AsyncClient) -> None:
    for path in ("/", "/nodes/edge-7"):
        response = await pages.get(path)
        assert "default-src 'none'" in response.headers["content-security-policy"]
        found = re.findall(r'(?:src|href)="([^"]+)"', response.text)
        assert all(address.startswith(("/", "#")) for address in found)
        for address in [each for each in found if each.startswith("/static/")]:
            assert (await pages.get(address)).status_code == 200


async def test_nothing_else_of_the_disk_is_served(pages: httpx2.AsyncClient) -> None:
    for name in ("../settings.py", "vendor/htmx.LICENSE", "%2e%2e/settings.py", "nothing"):
        assert (await pages.get(f"/static/console/{name}")).status_code == 404


def test_vendored_files_stand_beside_their_licences() -> None:
    vendor = Path(slackwater.console.__file__).parent / "static" / "vendor"
    for script in vendor.glob("*.js"):
        name = re.sub(r"(-ext)?-[\d.]+\.min\.js$", r"\1", script.name)
        assert (vendor / f"{name}.LICENSE").exists() or (vendor / f"{name.removesuffix('-ext')}.LICENSE").exists()


@pytest.mark.parametrize("rules", [{}, {"prod_cpu_pressure": 0.31}])
async def test_the_waterline_of_a_node_is_of_the_rules_in_force(
    pages: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, rules: dict[str, float]
) -> None:
    """The effects of the story name 10 %: those rules are deleted, or have another value since."""
    intent = IntentView("edge-7", "ensurance", 9, EPOCH, 30.0, {}, 0, rules)

    async def declared(*_names: object) -> tuple[IntentView, bool]:
        return intent, True

    drawn: list[object] = []

    def chart(_frame: object, *parts: object) -> str:
        drawn.append(parts[3])
        return ""

    monkeypatch.setattr("slackwater.console.usecases.node_page._intent", declared)
    monkeypatch.setattr("slackwater.console.usecases.node_page.pressure_chart", chart)
    await text(pages, "/nodes/edge-7")
    assert set(drawn) == {rules.get("prod_cpu_pressure")}
