"""What happens in a run, and the chunks that streaming makes of it."""

from agentkit_py.events.approvals import (
    APPROVAL_EVENT,
    ApprovalAnswer,
    ApprovalRequest,
    Decision,
)
from agentkit_py.events.chunks import Chunk, EventName
from agentkit_py.events.project import Projector
from agentkit_py.events.types import (
    AgentsRouted,
    ContextActivity,
    ContextBuilt,
    Event,
    HitlRequested,
    HitlResolved,
    ModelReplied,
    Observer,
    ReplyDelta,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolFinished,
    ToolStarted,
)

__all__ = [
    "APPROVAL_EVENT",
    "AgentsRouted",
    "ApprovalAnswer",
    "ApprovalRequest",
    "Chunk",
    "ContextActivity",
    "ContextBuilt",
    "Decision",
    "Event",
    "EventName",
    "HitlRequested",
    "HitlResolved",
    "ModelReplied",
    "Observer",
    "Projector",
    "ReplyDelta",
    "RunCompleted",
    "RunFailed",
    "RunStarted",
    "ToolFinished",
    "ToolStarted",
]
