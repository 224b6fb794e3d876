"""What docs/how-to/subscribe.md shows works against the real servers, and names only what exists."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from test_console_service import World, episode, world

from slackwater.bus.admin.streams import load
from slackwater.events.envelope import Payload
from slackwater.events.registry import EVENTS

__all__ = ["world"]

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how-to" / "subscribe.md").read_text()
EXAMPLE = ROOT / "examples" / "subscribe.py"


async def test_the_python_example_prints_decisions_and_effects(world: World, nats_url: str) -> None:
    wanted = [event for event in episode() if event.data.TYPE in ("decision.recorded", "effect.measured")][:6]
    await world.publish(wanted)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), nats_url, str(len(wanted)), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    lines = output.decode().splitlines()
    assert process.returncode == 0
    assert [line.split()[0] for line in lines] == [event.type for event in wanted]
    assert json.loads(lines[0].split(maxsplit=1)[1]) == json.loads(wanted[0].data.model_dump_json())


def test_the_page_shows_the_example_as_it_is() -> None:
    shown = re.search(r"```python\n(.*?)```", PAGE, re.S)
    assert shown is not None
    example = EXAMPLE.read_text()
    assert all(line.strip() in example for line in shown[1].splitlines())
    assert len(shown[1].splitlines()) <= 10


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on PATH (Debian: apt-get install curl)")
async def test_the_curl_line_prints_events(world: World) -> None:
    line = re.search(r"curl -N '(\S+)'", PAGE)
    assert line is not None
    async with world.console() as (client, _):
        url = line[1].replace("http://127.0.0.1:8460", str(client.base_url).rstrip("/"))
        process = await asyncio.create_subprocess_exec("curl", "-sN", url, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(60):
                assert (await process.stdout.readline()).startswith(b"retry:")
                await world.publish([event for event in episode() if event.data.TYPE == "effect.measured"])
                while (text := await process.stdout.readline()) != b"event: effect.measured\n":
                    assert text, "curl ended"
        finally:
            process.kill()
            await process.wait()


def subjects_on(page: str) -> list[str]:
    return re.findall(r"'(sw\.v1\.[^']+)'", page) + re.findall(r'"(sw\.v1\.[^"]+)"', page)


def payload_of(subject: str) -> type[Payload] | None:
    return next((payload for payload in EVENTS if subject.startswith(f"sw.v1.{payload.TYPE}.")), None)


def test_the_command_lines_name_streams_subjects_and_types_that_exist() -> None:
    found = subjects_on(PAGE)
    assert len(found) >= 5
    for subject in found:
        assert payload_of(subject) is not None, subject
        assert re.fullmatch(r"sw\.v1\.[a-z_]+\.[a-z_]+\.(>|\*\.[a-z0-9-]+\.>)", subject), subject
    for line in re.findall(r"^nats (?:stream|consumer).*$", PAGE, re.M):
        stream = next(word for word in line.split() if word.isupper())
        assert stream in load().streams
        for subject in subjects_on(line):
            payload = payload_of(subject)
            assert payload is not None
            assert stream == payload.STREAM
    for pattern in re.findall(r"--types '([^']+)'", PAGE):
        for each in pattern.split(","):
            assert any(re.match(each.replace(".", r"\.").replace("*", ".*"), payload.TYPE) for payload in EVENTS)
