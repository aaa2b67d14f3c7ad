"""Access: who may answer a question, take a thread over, and act on other users' data.

Each endpoint and each stream asks here. Where the server has tenants, another user's data is out of
reach unless both have the same tenant; only then are the lists and rules of the application asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from agentkit_py._core.awaiting import resolve
from agentkit_py.history.questions import Question
from agentkit_py.history.staff import Takeover
from agentkit_py.server.config import OWNER, ServerSettings


@dataclass(frozen=True, slots=True)
class Access:
    """The access of a user during a single request, or a single read of a list."""

    settings: ServerSettings
    user_id: str
    _tenants: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """Tenants by user, each asked for once."""

    async def reaches(self, owner: str | None) -> bool:
        """Return whether the user may act at all on the owner's data.

        Users without a tenant have none in common.
        """
        settings = self.settings
        is_bound = settings.tenant_of is not None and self.user_id not in settings.across_tenants
        if not is_bound or owner == self.user_id:
            return True
        own = await self._tenant(self.user_id)
        return own is not None and owner is not None and own == await self._tenant(owner)

    async def _tenant(self, user_id: str) -> str | None:
        if user_id not in self._tenants:
            self._tenants[user_id] = await self.settings.tenant(user_id)
        return self._tenants[user_id]

    async def may_answer(self, question: Question) -> bool:
        """Return whether the user may answer a question.

        The application's rule decides, if it has a rule. Otherwise the names of the question's
        tool, or those that `create_app` got; the thread's own user only as ``"owner"``.
        """
        settings, user_id, owner = self.settings, self.user_id, question.user_id
        if settings.may_answer is not None:
            return await self.reaches(owner) and bool(
                await resolve(settings.may_answer(user_id, question))
            )
        names = question.approvers_at(datetime.now(UTC)) or settings.approvers
        if owner == user_id:
            return OWNER in names
        return user_id != OWNER and user_id in names and await self.reaches(owner)

    @property
    def is_staff(self) -> bool | None:
        """Whether the user may take over threads of others; None: a rule says it of each thread."""
        if self.settings.may_take_over is not None:
            return None
        return self.user_id in self.settings.staff

    @property
    def may_be_staff(self) -> bool:
        """Whether there may be a thread that the user may take over."""
        return self.is_staff is not False or OWNER in self.settings.staff

    async def may_take_over(self, takeover: Takeover) -> bool:
        """Return whether the user may read a thread as staff, and take it over.

        The application's rule decides, if it has a rule, otherwise its list; a thread's own user
        may not, unless the list has ``"owner"``.
        """
        settings, user_id, owner = self.settings, self.user_id, takeover.user_id
        if owner == user_id:
            return settings.may_take_over is None and OWNER in settings.staff
        if settings.may_take_over is not None:
            return await self.reaches(owner) and bool(
                await resolve(settings.may_take_over(user_id, takeover))
            )
        return user_id != OWNER and user_id in settings.staff and await self.reaches(owner)
