"""A commit is notified twice, and wakes listeners once."""

from __future__ import annotations

from slackwater.store import commit_notifier as bells
from slackwater.store.commit_notifier import CommitNotifier


def listening(bell: CommitNotifier) -> list[str]:
    woken: list[str] = []
    bell.wakes(lambda: woken.append("woken"))
    return woken


def test_of_a_commit_and_its_notification_the_first_wakes_whichever_it_is() -> None:
    bell = CommitNotifier()
    woken = listening(bell)
    token = bell.token()
    bell.notify(token)
    assert len(woken) == 1
    bell.notify(token)
    assert len(woken) == 1
    bell.notify(bell.token())
    assert len(woken) == 2


def test_another_process_says_other_words() -> None:
    bell = CommitNotifier()
    woken = listening(bell)
    for _ in range(100):
        bell.notify(bell.token())
        bell.notify(CommitNotifier().token())
    assert len(woken) == 200


def test_a_notification_without_a_word_is_always_news() -> None:
    bell = CommitNotifier()
    woken = listening(bell)
    bell.notify("")
    bell.notify("")
    assert len(woken) == 2


def test_tokens_seen_once_are_kept_up_to_a_bound() -> None:
    bell = CommitNotifier()
    woken = listening(bell)
    first = bell.token()
    bell.notify(first)
    for _ in range(bells._MOST_TOKENS):
        bell.notify(bell.token())
    bell.notify(first)  # forgotten: it wakes for nothing, and nothing is lost
    assert len(woken) == bells._MOST_TOKENS + 2
    assert len(bell._seen_once) <= bells._MOST_TOKENS
