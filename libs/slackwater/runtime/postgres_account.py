"""Chooses the user of the embedded PostgreSQL, which refuses root, while other users may not be
able to read the checkout.

An ordinary user runs it directly. For root, the first that works:

1. the owner of an existing data directory if that is not root, else `nobody`, without capabilities,
when that user can reach the state directory and the binaries (every parent has the x bit for
others);

2. the same user with one ambient capability, CAP_DAC_READ_SEARCH or CAP_DAC_OVERRIDE, to pass
closed parents (containers drop the first by default and keep the second);

3. a user namespace that maps root to `nobody` for the server: no file changes its owner.

A user without an entry in /etc/passwd, which initdb refuses, also gets (3).
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slackwater.model.errors import Misconfigured

_NOBODY = 65534
_OTHERS_PASS = 0o001
_SECUREBITS = ("--securebits", "+no_setuid_fixup")  # else access(2), which initdb asks, ignores the capability


@dataclass(frozen=True, slots=True)
class Account:
    """`prefix` is put before every command of the server; `owner` must own the data directory."""

    prefix: tuple[str, ...]
    owner: int


def choose_account(state: Path, binaries: Path, previous_owner: int | None) -> Account:
    """Returns the first account under which `binaries` run here. Raises Misconfigured with possible
    remedies.
    """
    for account in _candidates(state, binaries, previous_owner):
        if _works(account, state, binaries):
            return account
    raise Misconfigured(
        f"PostgreSQL does not run as root and no other user can be used here (state directory {state}); allowed: an"
        " ordinary user with a line in /etc/passwd, or root with CAP_SETUID and CAP_DAC_OVERRIDE, or user namespaces;"
        " otherwise name an own server with SLACKWATER_POSTGRES_DSN"
    )


def _candidates(state: Path, binaries: Path, previous_owner: int | None) -> Iterator[Account]:
    own = os.geteuid()
    if own != 0:
        if _has_name(own):
            yield Account(_setpriv(), own)
        yield Account(_namespace(), own)
        return
    uid = previous_owner if previous_owner and _has_name(previous_owner) else _NOBODY
    change = ("--reuid", str(uid), "--regid", str(_group_of(uid)), "--clear-groups", "--no-new-privs")
    if _reachable(state) and _reachable(binaries / "postgres"):
        yield Account(_setpriv(*change), uid)
    for capability in ("+dac_read_search", "+dac_override"):
        yield Account(_setpriv(*change, *_SECUREBITS, "--inh-caps", capability, "--ambient-caps", capability), uid)
    yield Account(_namespace(), own)


def _setpriv(*options: str) -> tuple[str, ...]:
    """Returns the setpriv prefix; the server gets SIGINT (fast shutdown) when the thread that
    started it ends.
    """
    if shutil.which("setpriv") is None and not options:
        return ()
    return ("setpriv", "--pdeathsig", "INT", *options)


def _namespace() -> tuple[str, ...]:
    mapped = str(_NOBODY)
    return ("unshare", "--user", f"--map-user={mapped}", f"--map-group={mapped}", *_setpriv())


def _works(account: Account, state: Path, binaries: Path) -> bool:
    """Returns whether the binary starts under the account and the account can list the state
    directory's parents.
    """
    for command in ((str(binaries / "postgres"), "--version"), ("test", "-x", str(state))):
        try:
            done = subprocess.run([*account.prefix, *command], capture_output=True, check=False, timeout=20)
        except OSError:
            return False
        if done.returncode != 0:
            return False
    return True


def _reachable(path: Path) -> bool:
    return all(parent.stat().st_mode & _OTHERS_PASS for parent in (path, *path.parents))


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return _NOBODY
