"""The pages as a browser sees them: they fit, they are drawn, they live, they stay at home, keys are enough."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from devtools import Page
from served import Served
from tests.support.story import FLEET, SURGE, identifier

pytestmark = pytest.mark.browser

THROTTLE = identifier("edge-7", "throttle", SURGE[0] + 25)
PATHS = {
    "overview": "/?span=15m",
    "nodes": "/nodes",
    "nodes-by": "/nodes?sort=-memory",
    "pods": "/pods?sort=-cpu",
    "workloads": "/workloads",
    "pools": "/pools?sort=pool",
    "policies": "/policies",
    "quotas": "/quotas?span=15m",
    "quotas-memory": "/quotas?resource=batch-memory",
    "moves": "/moves?span=15m",
    "node": "/nodes/edge-7",
    "zones": "/nodes/edge-9?subject=batch-memory&span=15m&at=-2m",
    "cautious": "/nodes/edge-8?subject=mid-cpu&span=15m&at=yesterday",
    "decisions": "/decisions",
    "decision": f"/decisions/{THROTTLE}",
    "prediction": f"/decisions/{identifier('edge-7', 'prediction', 840)}",
    "events": "/events",
    "events-of": "/events?type=node.liveness_changed",
    "strategies": "/strategies",
    "strategies-of": "/strategies?node=edge-9",
    "kinds": "/resources",
    "resources": "/resources/autonomies",
    "resource": "/resources/autonomies/edge",
    "demo": "/demo",
    "loop": "/loop",
    "letters": "/deadletters",
    "letter": "/deadletters/1",
}
QUOTAS = ("team-a", "team-b", "research", "vision", "speech-and-translation-of-low-resource-languages")
CHARTS = {
    "overview": {
        "Fleet CPU by tier, last 15m": 1,
        "CPU of each pool: what is held, used, expected and offered": 1,
    },
    "nodes": {},
    "nodes-by": {},
    "pods": {},
    "workloads": {},
    "pools": {},
    "policies": {},
    "quotas": {f"batch-cpu of quota {name} over time": 1 for name in QUOTAS},
    "quotas-memory": {f"batch-memory of quota {name} over time": 1 for name in QUOTAS},
    "moves": {"CPU load of nodes: how many nodes use which part of their capacity, before and now": 1},
    "events": {},
    "events-of": {},
    "strategies": {},
    "strategies-of": {},
    "decisions": {},
    "demo": {},
    "kinds": {},
    "resources": {},
    "resource": {},
    "loop": {"From sample to effect: distribution of durations": 1},
    "letters": {},
    "letter": {},
    "node": {
        "CPU by tier over time": 1,
        "Memory by tier over time": 1,
        "When batch was throttled, and to how much": 1,
        "Prod CPU pressure over time, with its waterline": 1,
        "Expected prod CPU peak against prod usage over time": 1,
        "Expected prod memory peak against prod usage over time": 1,
        "CPU offered to batch and mid over time, last 1h": 1,
    },
    "zones": {
        "CPU by tier over time": 1,
        "Memory by tier over time": 1,
        "Prod CPU pressure over time, with its waterline": 1,
        "Expected prod CPU peak against prod usage over time": 1,
        "Expected prod memory peak against prod usage over time": 1,
        "memory offered to batch and mid over time, last 15m": 1,
    },
    "cautious": {
        "CPU by tier over time": 1,
        "Memory by tier over time": 1,
        "Prod CPU pressure over time, with its waterline": 1,
        "Expected prod CPU peak against prod usage over time": 1,
        "Expected prod memory peak against prod usage over time": 1,
        "CPU offered to batch and mid over time, last 15m": 1,
    },
    "decision": {},
    "prediction": {},
}
BARS = {
    "overview": len(FLEET) + 2,
    "nodes": len(FLEET),
    "nodes-by": len(FLEET),
    "quotas": len(QUOTAS),
    "quotas-memory": len(QUOTAS),
    "node": 7,
    "zones": 6,
    "decision": 4,
    "prediction": 5,
}
"""Small drawings: a tank per node, a bar per gain; a bullet per quota; a bar per term, one for the result, one
for the effect."""

HOSTILE = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'
LIVE = "document.getElementById('live').dataset.state === 'open'"
VISIBLE_CHARTS = """(() => {
  const shown = [...document.querySelectorAll('svg.chart')].filter(svg => {
    const box = svg.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && svg.querySelectorAll('rect, polyline, polygon, line').length > 0;
  });
  return shown.map(svg => svg.getAttribute('aria-label'));
})()"""
OUTSIDE = """[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.scroll, .skip, .hidden, svg') && e.getBoundingClientRect().right > innerWidth + 0.5)
  .map(e => e.tagName + '.' + e.className)"""
CUT = """[...document.querySelectorAll('.scroll')]
  .filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1)
  .map(e => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby'))"""
"""Tables with columns that are hidden behind a scroll."""
UNEVEN = """(() => {
  const sizes = (selector, side) => new Set([...document.querySelectorAll(selector)]
    .filter(e => e.offsetParent).map(e => Math.round(e.getBoundingClientRect()[side])));
  return [sizes('.stats > div', 'width'), sizes('.filters input:not([type=checkbox]), .filters select', 'height')]
    .map(found => [...found]).filter(found => found.length > 1);
})()"""
"""Tiles of different widths, fields of one form of different heights."""
BACKGROUND = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
CONTRASTS = """(() => {
  const rgb = text => text.match(/[\\d.]+/g).map((v, i) => Number(v) * (text.startsWith('color(') && i < 3 ? 255 : 1));
  const light = ([r, g, b]) => {
    const linear = [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = e => {
    for (let at = e; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('h1, h2, p, th, td, dt, dd, a, .muted, .good, .bad, .badge, .kind')]
    .filter(e => !e.closest('.hidden, .skip, svg') && e.innerText.trim())
    .map(e => {
      const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), e.innerText.slice(0, 30)];
    })
    .filter(([ratio]) => ratio < 4.5);
})()"""


UNNAMED = """[
  ...[...document.querySelectorAll('svg[role=img]')].filter(e => !e.getAttribute('aria-label')),
  ...[...document.querySelectorAll('a, button')].filter(e => !e.closest('svg') && !e.innerText.trim()),
  ...[...document.querySelectorAll('input:not([type=hidden]), select')].filter(e => !e.labels.length),
  ...[...document.querySelectorAll('[role=region], section, nav, form')]
    .filter(e => !e.getAttribute('aria-label') && !document.getElementById(e.getAttribute('aria-labelledby'))),
  ...[...document.querySelectorAll('table')]
    .filter(e => !e.tHead || [...e.tHead.querySelectorAll('th')].some(t => t.scope !== 'col')),
  ...[...document.querySelectorAll('.scroll')].filter(e => e.tabIndex !== 0),
  ...[...document.querySelectorAll('[onclick], [style]')],
  ...(document.querySelectorAll('h1').length === 1 && document.documentElement.lang ? [] : [document.body]),
  ...[...document.querySelectorAll('[id]')].filter((e, _, all) => all.some(o => o !== e && o.id === e.id)),
].map(e => e.outerHTML.slice(0, 120))"""
"""What a screen reader or a keyboard user would miss: names, labels, headers, an order, ids that are unique."""
LOOKS = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]


@pytest.mark.parametrize("name", PATHS)
def test_a_page_fits_its_window_with_every_drawing_in_it(page: Page, told: Served, name: str) -> None:
    page.open(told.url + PATHS[name])
    for width, scheme in LOOKS:
        page.look(width, scheme=scheme)
        assert_fits(page, name, scheme)


def assert_fits(page: Page, name: str, scheme: str) -> None:
    """The page in its window of now: nothing beside it, every drawing once, text that stands out, names for all."""
    look = f"{page.width} {scheme}"
    assert page.ask("document.documentElement.scrollWidth") <= page.width, look
    assert page.ask(OUTSIDE) == [], look
    assert page.ask(CUT) == [], f"{look}: every column is in sight"
    assert page.ask(UNEVEN) == [], f"{look}: what stands beside each other has one size"
    shown = page.ask(VISIBLE_CHARTS)
    for label, count in CHARTS[name].items():
        assert shown.count(label) == count, f"{look} {label}: of the wide and the narrow drawing exactly one is shown"
    assert len(shown) - len(CHARTS[name]) == BARS.get(name, 0), look
    red, green, blue = page.ask(BACKGROUND)
    assert (red + green + blue < 150) == (scheme == "dark"), look
    assert page.ask(CONTRASTS) == [], f"{look}: text must stand out from what is behind it by 4.5 to 1"
    assert page.ask(UNNAMED) == [], look


@pytest.mark.parametrize("name", PATHS)
def test_the_page_logs_nothing_and_requests_only_its_own_server(page: Page, told: Served, name: str) -> None:
    page.open(told.url + PATHS[name])
    page.until(LIVE)

    asked = [sent["request"]["url"] for sent in page.heard("Network.requestWillBeSent")]
    assert len(asked) >= 7, "the page, its style, its scripts and its stream"
    assert {f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in asked} == {told.url}
    assert page.heard("Runtime.exceptionThrown") == []
    assert [entry["entry"]["text"] for entry in page.heard("Log.entryAdded")] == []


def test_the_policy_of_the_page_lets_nothing_in_from_elsewhere(page: Page, told: Served) -> None:
    page.open(told.url)
    answers: list[dict[str, Any]] = [each["response"] for each in page.heard("Network.responseReceived")]
    policy = next(a for a in answers if a["url"] == told.url + "/")["headers"]["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy

    refused = """new Promise(done => {
      document.addEventListener('securitypolicyviolation', event => done(event.effectiveDirective));
      const picture = new Image();
      picture.onload = () => done('loaded');
      picture.src = 'http://127.0.0.2:9/elsewhere.png';
    })"""
    assert page.ask(refused) == "img-src"
    inline = """(() => {
      window.ran = false;
      const script = document.createElement('script');
      script.textContent = 'window.ran = true';
      document.head.append(script);
      return window.ran;
    })()"""
    assert page.ask(inline) is False


def test_the_overview_follows_what_happens(page: Page, living: Served) -> None:
    throttled = "[...document.querySelectorAll('.stats dt')].find(e => e.innerText === 'Throttled now')"
    page.open(living.url)
    page.until(LIVE)
    assert page.ask(f"{throttled}.nextElementSibling.innerText").startswith("0")
    page.ask("window.sameDocument = true")

    living.tell(10)  # the report that crosses the waterline, the decision, and the next report

    page.until(f"{throttled}.nextElementSibling.innerText", lambda text: text.startswith("2 pods on 1 node"))
    assert "took back" in page.ask("document.querySelector('.feed').innerText")
    assert page.ask("window.sameDocument") is True, "the page was not loaded again"


def test_the_node_page_draws_the_throttle_when_it_comes(page: Page, living: Served) -> None:
    page.open(living.url + "/nodes/edge-7")
    page.until(LIVE)
    assert page.ask("document.querySelectorAll('.flag.throttle, .limited').length") == 0

    living.tell(15)

    page.until("document.querySelectorAll('.wide .flag.throttle').length > 0")
    page.until("document.querySelectorAll('.wide .limited').length > 0")
    assert "throttled" in page.ask("document.querySelector('h1').innerText")


def test_a_decision_page_fills_its_chain_while_one_looks(page: Page, living: Served) -> None:
    living.tell(5.1)  # the decision is taken; the agent has not answered yet
    page.open(f"{living.url}/decisions/{identifier('edge-7', 'throttle', SURGE[0] + 10)}")
    page.until(LIVE)
    steps = "[...document.querySelectorAll('.chain strong')].map(e => e.innerText)"
    assert page.ask(steps) == ["usage.reported", "decision.recorded"]
    assert "not complete yet" in page.ask("document.querySelector('main').innerText")

    living.tell(5)

    page.until(steps, lambda seen: seen[-1] == "effect.measured")
    assert "not complete yet" not in page.ask("document.querySelector('main').innerText")


def test_the_page_says_when_it_is_not_live_any_more(page: Page, living: Served) -> None:
    page.open(living.url)
    page.until(LIVE)
    living.loop.call_soon_threadsafe(living.streams.close)
    page.until("document.querySelector('#live .word').innerText", lambda word: word in ("reconnecting", "not live"))
    page.until(LIVE)  # a stream that closed takes new listeners, and the browser comes back by itself


FOCUSED = "(document.activeElement.innerText || document.activeElement.textContent).trim().split('\\n')[0]"


def test_the_keyboard_walks_the_page_from_top_to_bottom(page: Page, told: Served) -> None:
    page.open(told.url)
    walked, heights = [], []
    for _ in range(47):
        page.press("Tab", 9)
        walked.append(page.ask(FOCUSED))
        heights.append(page.ask("document.activeElement.getBoundingClientRect().top + scrollY"))
        style = page.ask("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none" or walked[-1] == "Skip to content", f"{walked[-1]!r} does not show that it has the focus"
    assert walked[:2] == ["Skip to content", "Slackwater"]
    assert walked[2:10] == ["Overview", "Nodes", "Workloads", "Quotas", "Moves", "Decisions", "Policies", "Loop"]
    assert walked[10:12] == ["edge-7", "Look, or block it"], "the agent that sends poison comes first"
    assert walked[12:19] == ["Pictures and tables", "CPU", "Memory", "15m", "1h", "6h", "24h"]
    pool = walked.index("edge")
    beyond = {name for name in walked[20:pool] if name.startswith("edge-")}
    assert beyond == {"edge-7", "edge-8", "edge-9"}, "those beyond their offers"
    assert walked[pool : pool + 2] == ["edge", "1 silent"], "a name that has room is said once"
    names = [name for name in walked[pool:] if name.startswith("edge-")]
    assert set(names) == {node.name for node in FLEET}
    last = pool + max(walked[pool:].index(name) for name in names)
    assert heights[:last] == sorted(heights[:last])


def test_skip_to_content_leads_past_the_navigation(page: Page, told: Served) -> None:
    page.open(told.url)
    page.press("Tab", 9)
    page.press("Enter", 13)
    page.until("document.activeElement.id === 'main'")
    page.press("Tab", 9)
    assert page.ask("document.activeElement.closest('main') !== null")


def test_a_flag_on_the_chart_leads_to_its_decision_and_a_group_to_its_list(page: Page, told: Served) -> None:
    page.open(told.url + "/nodes/edge-7")
    hrefs = page.ask("[...document.querySelectorAll('.wide svg a')].map(e => e.getAttribute('href'))")
    group, single = hrefs[0], hrefs[1]
    assert group.startswith("/decisions?node=edge-7&since=")
    page.open(told.url + single)
    assert page.ask("document.querySelector('h1').innerText").startswith("restore")
    page.open(told.url + group)
    assert page.ask(f"!!document.querySelector('a[href$=\"{THROTTLE}\"]')")


def test_an_unknown_page_offers_the_way_back(page: Page, told: Served) -> None:
    page.open(told.url + "/nodes/edge-77")
    assert "did you mean 'edge-7'" in page.ask("document.querySelector('main').innerText")
    assert page.ask("document.querySelector('main a').getAttribute('href')") == "/"


def test_a_hostile_pod_name_is_text_on_every_page(page: Page, hostile: Served) -> None:
    shown = 0
    for path in ("/", "/nodes/edge-7", "/decisions", f"/decisions/{THROTTLE}", "/deadletters", "/deadletters/1"):
        page.open(hostile.url + path)
        assert page.ask("window.hacked") is None
        assert page.ask("document.querySelectorAll('main script, main img').length") == 0
        shown += HOSTILE in page.ask("document.body.innerText")
    assert shown >= 4
    assert page.heard("Runtime.exceptionThrown") == []


def test_a_dead_letter_is_replayed_by_keyboard_and_says_so(page: Page, living: Served) -> None:
    living.bury("invalid_payload", "record: Field required", b'{"node": "edge-7"}')
    page.open(living.url + "/deadletters/1")
    page.until(LIVE)
    answer = "document.getElementById('answer').innerText"
    page.ask("[...document.querySelectorAll('button')].find(e => e.innerText === 'What would it do?').focus()")
    page.press("Enter", 13)
    page.until(answer, lambda text: text.startswith("would publish"))
    assert page.ask("document.querySelector('button').innerText") == "Replay"
    page.ask("document.querySelector('button').focus()")
    page.press("Enter", 13)
    page.until(answer, lambda text: text.startswith("published to sw.v1.decision.recorded"))
    page.until("document.querySelector('button').innerText === 'Replay again'")
    assert "by local" in page.ask("document.querySelector('main').innerText")


def test_filters_are_a_form_and_errors_stand_beside_it(page: Page, told: Served) -> None:
    page.open(told.url + "/decisions?pod=encode-video-0&kind=throttle")
    assert page.ask("document.querySelectorAll('table.log tbody tr').length") == 2
    assert page.ask("document.querySelector('[name=pod]').value") == "encode-video-0"
    page.open(told.url + "/decisions")
    page.ask("document.querySelector('[name=since]').value = 'yesterday'")
    page.ask("document.querySelector('[name=since]').focus()")
    page.press("Enter", 13)
    page.until("location.search.includes('since=yesterday') && document.readyState === 'complete'")
    assert "'yesterday' is not a time" in page.ask("document.querySelector('[role=alert].notice').innerText")
    assert page.ask("document.querySelector('[name=since]').value") == "yesterday"


def test_older_decisions_are_a_page_further_and_newer_ones_are_announced(page: Page, living: Served) -> None:
    page.open(living.url + "/decisions?kind=any")
    page.until(LIVE)
    first = page.ask("document.querySelector('table.log a').href")
    page.open(page.ask("document.querySelector('[rel=next]').href"))
    assert page.ask("document.querySelector('table.log a').href") != first
    page.open(living.url + "/decisions")
    page.until(LIVE)
    rows = page.ask("document.querySelectorAll('table.log tbody tr').length")
    living.tell(12)
    page.until("document.getElementById('newer').innerText", lambda text: "newer decision" in text)
    assert page.ask("document.querySelectorAll('table.log tbody tr').length") == rows, "the list itself stays still"


def test_a_lost_stream_shows_a_notice_until_it_reconnects(page: Page, living: Served) -> None:
    notice = "document.getElementById('lost')"
    page.open(living.url)
    page.until(LIVE)
    assert page.ask(f"{notice}.hidden") is True
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    living.loop.call_soon_threadsafe(living.streams.close)
    page.until(f"{notice}.hidden === false")
    assert "is disconnected since" in page.ask(f"{notice}.innerText")
    page.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.until(LIVE)
    page.until(f"{notice}.hidden === true")


def test_a_node_page_that_lost_its_stream_catches_up_when_it_is_back(page: Page, living: Served) -> None:
    page.open(living.url + "/nodes/edge-7")
    page.until(LIVE)
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    living.loop.call_soon_threadsafe(living.streams.close)
    page.until("document.getElementById('lost').hidden === false")
    living.tell(15)
    page.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.until(LIVE)
    page.until("document.querySelectorAll('.wide .flag.throttle').length > 0")


def test_the_guard_names_the_pod_the_limit_the_time_and_the_record(page: Page, living: Served) -> None:
    living.tell(25)
    page.open(living.url)
    row = page.ask("document.querySelector('table.guard tbody tr').innerText")
    assert "encode-video-0" in row
    assert "edge-7" in row
    assert "no limit" in row
    href = page.ask("document.querySelector('table.guard a[href^=\"/decisions/\"]').getAttribute('href')")
    assert href == f"/decisions/{THROTTLE}"
    page.open(living.url + href)
    assert "+" in page.ask("document.querySelector('.equation').innerText")
