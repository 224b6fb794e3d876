"""The pages as a browser sees them: they fit, they are drawn, they live, they stay at home, keys are enough."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from devtools import Page
from served import Served

from slackwater.testing.story import FLEET, SURGE, identifier

pytestmark = pytest.mark.browser

THROTTLE = identifier("edge-7", "throttle", SURGE[0] + 25)
PATHS = {
    "overview": "/?span=15m",
    "nodes": "/nodes",
    "node": "/nodes/edge-7",
    "decisions": "/decisions",
    "decision": f"/decisions/{THROTTLE}",
}
CHARTS = {
    "overview": {"Fleet CPU by tier, last 15m": 1},
    "nodes": {},
    "decisions": {},
    "node": {
        "CPU by tier over time": 1,
        "When batch was throttled, and to how much": 1,
        "Prod CPU pressure over time, with its waterline": 1,
        "Expected prod peak against prod usage over time": 1,
    },
    "decision": {},
}
BARS = {"overview": len(FLEET) + 2, "nodes": len(FLEET), "node": 7, "decisions": 0, "decision": 3}
"""Small drawings: a tank per node, a bar per gain; a bar per term and one for the result."""

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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", PATHS)
def test_a_page_fits_its_window_with_every_drawing_in_it(
    page: Page, told: Served, name: str, width: int, scheme: str
) -> None:
    page.look(width, scheme=scheme)
    page.open(told.url + PATHS[name])

    assert page.ask("document.documentElement.scrollWidth") <= width
    assert page.ask(OUTSIDE) == []
    shown = page.ask(VISIBLE_CHARTS)
    for label, count in CHARTS[name].items():
        assert shown.count(label) == count, f"{label}: of the wide and the narrow drawing exactly one is shown"
    assert len(shown) - len(CHARTS[name]) == BARS[name]
    red, green, blue = page.ask(BACKGROUND)
    assert (red + green + blue < 150) == (scheme == "dark")
    assert page.ask(CONTRASTS) == [], "text must stand out from what is behind it by 4.5 to 1"


@pytest.mark.parametrize("name", PATHS)
def test_the_page_says_nothing_on_the_console_and_asks_nobody_else(page: Page, told: Served, name: str) -> None:
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
    assert "still going on" in page.ask("document.querySelector('main').innerText")

    living.tell(5)

    page.until(steps, lambda seen: seen[-1] == "effect.measured")
    assert "still going on" not in page.ask("document.querySelector('main').innerText")


def test_the_page_says_when_it_is_not_live_any_more(page: Page, living: Served) -> None:
    page.open(living.url)
    page.until(LIVE)
    living.loop.call_soon_threadsafe(living.streams.close)
    page.until("document.querySelector('#live .word').innerText", lambda word: word in ("reconnecting", "not live"))
    page.until(LIVE)  # a stream that closed takes new listeners, and the browser comes back by itself


FOCUSED = "(document.activeElement.innerText || document.activeElement.className).trim().split('\\n')[0]"


def test_the_keyboard_walks_the_page_from_top_to_bottom(page: Page, told: Served) -> None:
    page.open(told.url)
    walked, heights = [], []
    for _ in range(17):
        page.press("Tab", 9)
        walked.append(page.ask(FOCUSED))
        heights.append(page.ask("document.activeElement.getBoundingClientRect().top + scrollY"))
        style = page.ask("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none" or walked[-1] == "Skip to content", f"{walked[-1]!r} does not show that it has the focus"
    assert walked[:5] == ["Skip to content", "Slackwater", "Overview", "Nodes", "Decisions"]
    assert walked[5:11] == ["CPU", "Memory", "15m", "1h", "6h", "24h"]
    names = [name for name in walked if name.startswith("edge-")]
    assert sorted(names) == sorted(node.name for node in FLEET)
    last = max(walked.index(name) for name in names)
    assert heights[:last] == sorted(heights[:last])


def test_skip_to_content_leads_past_the_navigation(page: Page, told: Served) -> None:
    page.open(told.url)
    page.press("Tab", 9)
    page.press("Enter", 13)
    page.until("document.activeElement.id === 'main'")
    page.press("Tab", 9)
    assert page.ask("document.activeElement.closest('main') !== null")


def test_a_flag_on_the_chart_leads_to_its_decision(page: Page, told: Served) -> None:
    page.open(told.url + "/nodes/edge-7")
    hrefs = page.ask("[...document.querySelectorAll('.wide svg a')].map(e => e.getAttribute('href'))")
    assert f"/decisions/{THROTTLE}" in hrefs
    page.open(told.url + hrefs[0])
    assert page.ask("document.querySelector('h1').innerText").startswith("throttle")


def test_an_unknown_page_offers_the_way_back(page: Page, told: Served) -> None:
    page.open(told.url + "/nodes/edge-77")
    assert "did you mean 'edge-7'" in page.ask("document.querySelector('main').innerText")
    assert page.ask("document.querySelector('main a').getAttribute('href')") == "/"
