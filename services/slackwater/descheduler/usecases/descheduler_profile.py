"""What DeschedulerProfiles are checked for, and what they come to."""

from __future__ import annotations

from slackwater.descheduling.documents import DeschedulerProfile, profile_of
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.descheduling.registry import make_plugin
from slackwater.resources.hooks import Hooks


class DeschedulerProfileHooks(Hooks[DeschedulerProfile, DeclaredProfile]):
    """A profile whose plugins cannot be made is refused."""

    def resolve(self, document: DeschedulerProfile, parent: DeclaredProfile | None) -> DeclaredProfile:
        profile = profile_of(document)
        for choice in profile.plugins:
            make_plugin(choice)
        return profile
