"""The demo's network as something to play with: what `agentkit dev` opens without a target.

Its model is the demo's script, asked in this process: nothing leaves it, and no key is needed.
Threads and what tools change are in the folder that `agentkit dev` names, else in a temporary one.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from agentkit_py.cli.demo.network import support_network
from agentkit_py.cli.demo.script import scripted_model
from agentkit_py.cli.demo.travel import TravelData
from agentkit_py.cli.target import DEV_FOLDER
from agentkit_py.models import openai
from agentkit_py.network import Network
from agentkit_py.processors.tokenizers import ApproximateTokenizer
from agentkit_py.testing import FakeProvider, PacedTransport

_PAUSE = 0.012
"""Seconds between two pieces of a reply, so that one sees it being written."""


def network(folder: Path | None = None, *, pause: float = _PAUSE) -> Network:
    """The network, with its model and its store.

    Args:
        folder: Where threads and bookings are kept.
        pause: Seconds between two pieces of a reply.
    """
    folder = folder or Path(os.environ.get(DEV_FOLDER) or _temporary())
    parallel = {"parallel_tool_calls": True}
    model = openai("scripted", api_key="sk-demo", default_parameters=parallel)
    model = replace(model, transport=PacedTransport(FakeProvider(scripted_model).transport, pause))
    return support_network(
        TravelData(folder / "travel.db"),
        model,
        threads=folder / "threads.db",
        tokenizer=ApproximateTokenizer(),  # offline, tiktoken's encoding cannot be fetched
    )


def _temporary() -> str:
    folder = tempfile.TemporaryDirectory(prefix="agentkit-demo-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return folder.name
