"""Events of a run, and the chunks that streaming makes of them."""

from typing import TYPE_CHECKING

from agentkit_py._core.lazy import Finder as _Finder
from agentkit_py._core.lazy import lazily as _lazily
from agentkit_py.events.approvals import (
    APPROVAL_EVENT,
    ApprovalAnswer,
    ApprovalRequest,
    Decision,
)
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

if TYPE_CHECKING:
    from agentkit_py.events.chunks import Chunk, EventName
    from agentkit_py.events.consume import (
        ChunkReader,
        MessageAssembler,
        PublishedChunk,
        StreamedPart,
        assemble,
    )
    from agentkit_py.events.project import Projector

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

__getattr__: _Finder = _lazily(
    __name__,
    {
        "agentkit_py.events.chunks": "Chunk EventName",
        "agentkit_py.events.consume": (
            "ChunkReader MessageAssembler PublishedChunk StreamedPart assemble"
        ),
        "agentkit_py.events.project": "Projector",
    },
)
