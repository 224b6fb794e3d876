"""From files with a DeschedulerProfile to the profiles that a trace is replayed with."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.descheduling.documents import DeschedulerProfile, profile_of
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.descheduling.registry import make_plugin
from slackwater.model.errors import InvalidInput
from slackwater.simulation.adapters.document_files import DocumentFile


def read_profiles(files: Sequence[DocumentFile]) -> Sequence[tuple[str, DeclaredProfile]]:
    """Returns the profiles by the name that results show: that of the file, and of the document where a file has
    several. Raises InvalidInput for an invalid document and a plugin that is not there."""
    found: list[tuple[str, DeclaredProfile]] = []
    for file in files:
        for body in file.bodies:
            try:
                profile = profile_of(DeschedulerProfile.parse(body.said))
                for choice in profile.plugins:
                    make_plugin(choice)
            except InvalidInput as error:
                raise InvalidInput(f"{body.origin}: {error.message}", field=error.field) from error
            name = file.name if len(file.bodies) == 1 else profile.name
            found.append((name, profile))
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        raise InvalidInput("-f: two profiles would have the same name in the result; rename a file", field="filename")
    return found
