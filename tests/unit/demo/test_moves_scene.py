"""The scene moves: how long a client had no answer, which pod answered, and in which cgroup a service runs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.demo.programs.service import instance_of
from slackwater.demo.scenes.moves import longest_silence, mixed_answers


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["old", "new", ""]), max_size=20))
def test_a_silence_lies_between_two_answers_and_no_old_pod_answers_after_the_new_one(names: list[str]) -> None:
    answers = [(float(at), name) for at, name in enumerate(names)]
    inner = "".join(name[:1] or " " for name in names).strip()
    gaps = [len(part) for part in inner.replace("o", "x").replace("n", "x").split("x") if part]
    assert longest_silence(answers) == (max(gaps) + 1 if gaps else None)
    after = names[names.index("new") :] if "new" in names else []
    assert mixed_answers(answers, "old", "new") == sum(name == "old" for name in after)


def test_the_service_reads_its_instance_from_either_version_of_cgroups() -> None:
    assert instance_of("4:cpu,cpuacct:/slackwater-1a2b/prod/uid\n0::/\n") == "1a2b"
    assert instance_of("0::/user.slice/slackwater-9f/prod/x\n") == "9f"
    assert instance_of("0::/init.scope\n") == "-"
