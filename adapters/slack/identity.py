"""Who we are on Slack."""

from __future__ import annotations

from dataclasses import dataclass

PLATFORM = "slack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """Our app in one workspace, or in a whole organisation if it was installed there.

    `user` is the id under which people mention us, `bot` the one that our messages carry.
    """

    app: str
    team: str
    user: str
    bot: str
    enterprise: str = ""
    org_wide: bool = False
    name: str = ""

    @property
    def home(self) -> str:
        """The workspace, or the organisation: the tenant that our events belong to."""
        return self.enterprise if self.org_wide and self.enterprise else self.team

    @property
    def account(self) -> str:
        """The identity as the contract has it: the one place where it gets its form."""
        return f"{self.app}:{self.home}"

    def is_ours(self, team: str, enterprise: str) -> bool:
        """Whether an installation is the one that we are."""
        return enterprise == self.enterprise if self.org_wide else team == self.team


NOBODY = Me(app="", team="", user="", bot="")
"""Before we have asked."""
