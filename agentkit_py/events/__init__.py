"""What happens in a run, and the chunks that streaming makes of it."""

from agentkit_py.events.approvals import (
    APPROVAL_EVENT,
    ApprovalAnswer,
    ApprovalRequest,
    Decision,
)
from agentkit_py.events.chunks import Chunk, EventName
from agentkit_py.events.consume import (
    ChunkReader,
    MessageAssembler,
    PublishedChunk,
    StreamedPart,
    assemble,
)
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
    RunInterrupted,
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
    "ChunkReader",
    "ContextActivity",
    "ContextBuilt",
    "Decision",
    "Event",
    "EventName",
    "HitlRequested",
    "HitlResolved",
    "MessageAssembler",
    "ModelReplied",
    "Observer",
    "Projector",
    "PublishedChunk",
    "ReplyDelta",
    "RunCompleted",
    "RunFailed",
    "RunInterrupted",
    "RunStarted",
    "StreamedPart",
    "ToolFinished",
    "ToolStarted",
    "assemble",
]
