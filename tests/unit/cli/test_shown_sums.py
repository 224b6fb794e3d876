"""Outputs of a running instance in the pages are whole: their sums hold, as those of any instance do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
TOLERANCE = 0.005
"""Half of the last digit that the tables show."""
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def block(page: str, command: str) -> list[str]:
    """The lines of the block that begins with a command."""
    blocks = re.findall(r"```\n(\$ .*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    [shown] = [text for text in blocks if text.startswith(f"$ {command}")]
    return str(shown).splitlines()


def numbers(line: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(line)]


def test_the_rows_of_a_pool_add_up_to_its_line() -> None:
    _, _, *rows, sums = block("how-to/read-offers.md", "slackwater get offers --pool web")
    columns = [[float(cell.removesuffix("Gi")) for cell in row.split()[1:5]] for row in rows]
    batch_cpu, batch_memory, mid_cpu, mid_memory = map(sum, zip(*columns, strict=True))
    of, nodes, degraded, batch, mid, *_, memory, mid_gib, _ = numbers(sums)
    assert (of, nodes) == (len(rows), len(rows))
    assert degraded == len([row for row in rows if not row.endswith("-")])
    assert (batch, mid, memory, mid_gib) == pytest.approx((batch_cpu, mid_cpu, batch_memory, mid_memory), abs=TOLERANCE)


def test_the_terms_of_an_offer_add_up_to_its_result() -> None:
    _, head, _, _, *rows = block("how-to/read-offers.md", "slackwater why node/web-2 batch-cpu")
    terms = [[float(cell) for cell in re.sub("[█▉▊▋▌▍▎▏]+", "", row).split()[1:3] if cell != "the"] for row in rows]
    total = 0.0
    for amount, after in terms[:-1]:
        total += amount
        assert after == pytest.approx(total, abs=TOLERANCE)
    assert terms[-1] == [pytest.approx(total, abs=TOLERANCE)]
    assert numbers(head)[-1] == pytest.approx(total, abs=TOLERANCE)


def test_a_gap_is_its_formula_and_is_released_by_the_chosen_pods() -> None:
    lines = block("how-to/ask-why.md", "slackwater why decision/")
    [gap] = [line for line in lines if line.lstrip().startswith("gap = ")]
    excess, lacking, result = numbers(gap)[1:]
    assert result == pytest.approx((1 + excess) * lacking, abs=TOLERANCE)
    chosen = [float(line.split("chosen")[1].split()[0]) for line in lines if " chosen " in line]
    assert sum(chosen) == pytest.approx(result, abs=TOLERANCE)


def test_a_runtime_is_what_its_rounds_give() -> None:
    lines = [line.split() for line in block("how-to/share-by-quota.md", "slackwater why quota/team-b")]
    given = [
        float(words[1 if words[0] == "first" else 2]) for words in lines if words and words[0] in ("first", "round")
    ]
    [runtime] = [float(words[1]) for words in lines if words and words[0] == "runtime"]
    assert sum(given) == runtime


MOVES = "how-to/simulate-moves.md"
GOOGLE = "slackwater simulate -f examples/descheduler_profile.yaml --trace ../shared/data/google2011_machines"


def test_a_figure_in_the_text_is_that_of_the_block() -> None:
    [moves] = [numbers(line) for line in block(MOVES, GOOGLE) if line.startswith("moves ")]
    [stated] = re.findall(r"with (\d+) times the moves", (DOCS / MOVES).read_text(encoding="utf-8"))
    assert int(stated) == round(moves[1] / moves[2])


MEASURED = re.compile(
    r"\b(took|takes some|costs some|measured|seen on|pays? some)\b[^.]*\d[\d.,]*\s?(s|ms|µs|MB|GB|MiB|GiB|%)(?!\w)",
    re.I,
)
REPEATED_BY = re.compile(r"\bmake (bench|faults|figures|run)\b|\$ slackwater |0\d{3}-[a-z-]+\.md")
"""A command in the paragraph, or the decision record that says how it was measured."""


def test_what_is_said_to_be_measured_stands_beside_its_command() -> None:
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name not in ("decisions", "reference")]
    paragraphs = [(page.name, text) for page in pages for text in page.read_text(encoding="utf-8").split("\n\n")]
    found = {
        (name, MEASURED.search(text)[0])
        for name, text in paragraphs
        if MEASURED.search(text) and not REPEATED_BY.search(text)
    }  # type: ignore[index]
    assert found == set()
    assert MEASURED.search("laughs took over 30 s and 1.5 GB")
