"""Figures of pages: found beside their commands, compared within a tolerance, and written anew."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

from figures import differences, figures, rewritten  # noqa: E402 - needs the path above

PAGE = """# A page

```
$ slackwater simulate -f a.yaml --trace ../shared/data/x \\
    --to 7
hot minutes     1,000   900
...
moves               0    12
```

```
$ slackwater get nodes
edge-1
```
"""
PRINTED = ["heading", "hot minutes     1,004   901", "left out", "moves    0    12", "end"]


def test_a_command_that_reads_recorded_data_is_found_whole(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    (figure,) = figures([page])
    assert figure.command == "slackwater simulate -f a.yaml --trace ../shared/data/x --to 7"
    assert figure.lines == ("hot minutes     1,000   900", "...", "moves               0    12")


def test_numbers_within_a_percent_are_as_shown_and_words_have_to_be_equal() -> None:
    shown = ["hot minutes     1,000   900", "...", "moves               0    12"]
    assert differences(shown, PRINTED) == []
    (wrong,) = differences(shown, [PRINTED[1].replace("901", "990"), *PRINTED[2:]])
    assert "now:  hot minutes     1,004   990" in wrong
    assert differences(["cold minutes 1"], PRINTED) == ["not printed: cold minutes 1"]
    assert differences(["moves 0 12", "hot minutes 1,000 900"], PRINTED) == ["not printed: hot minutes 1,000 900"]


def test_a_figure_of_half_a_trace_is_found_out() -> None:
    """What was wrong once: a page showed 37,185 hot minutes where its command prints 243,870."""
    assert differences(["hot node minutes 37,185 35,975"], ["hot node minutes 243,870 212,785"]) != []


def test_a_page_is_written_with_what_is_printed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    (figure,) = figures([page])
    text = rewritten(figure, PRINTED)
    assert PAGE.replace(figure.text, text) == PAGE.replace(
        "hot minutes     1,000   900", "hot minutes     1,004   901"
    ).replace("moves               0    12", "moves    0    12")
