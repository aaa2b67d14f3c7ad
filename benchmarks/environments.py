"""An environment of its own for each peer, under .cache/peers, with pinned versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = ROOT / ".cache" / "peers"


@dataclass(frozen=True, slots=True)
class Peer:
    """One framework and the packages of its environment."""

    name: str
    wants: tuple[str, ...]
    """Requirements that ``--pin`` resolves into ``requirements/NAME.txt``."""

    @property
    def adapter(self) -> str:
        """Name of its module in ``adapters``."""
        return f"peer_{self.name.replace('-', '_')}"

    @property
    def pins(self) -> Path:
        """File with its versions."""
        return HERE / "requirements" / f"{self.name}.txt"

    @property
    def python(self) -> Path:
        """Interpreter of its environment."""
        names = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
        return CACHE.joinpath(self.name, *names)


PEERS = (
    Peer("agno", ("agno",)),
    Peer("pydantic-ai", ("pydantic-ai-slim",)),
    Peer("openai-agents", ("openai-agents",)),
    Peer("langgraph", ("langgraph", "langchain")),
    Peer("agent-framework", ("agent-framework-core",)),
    Peer("autogen", ("autogen-agentchat", "autogen-core")),
)


class CannotInstall(Exception):  # noqa: N818 - no error: the page says why a peer is missing
    """A peer's packages cannot be installed here."""


def environment() -> dict[str, str]:
    """Return the variables of the workers: byte code is kept, tiktoken's files are found."""
    found = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    tokens = ROOT / ".cache" / "tiktoken"
    if tokens.is_dir():
        found["TIKTOKEN_CACHE_DIR"] = str(tokens)
    return found


def own_command(adapter: str) -> list[str]:
    """Return the command of a worker in this environment."""
    return [sys.executable, str(HERE / "worker.py"), adapter]


def peer_command(peer: Peer) -> list[str]:
    """Install a peer if needed and return the command of its worker.

    Raises:
        CannotInstall: Its packages cannot be installed.
    """
    folder = CACHE / peer.name
    stamp, pins = folder / ".installed", peer.pins.read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != pins:
        print(f"installing {peer.name}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        python = str(peer.python)
        if shutil.which("uv"):
            _run("uv", "venv", "--quiet", "--python", sys.executable, str(folder))
            _run("uv", "pip", "install", "--quiet", "--python", python, "-r", str(peer.pins))
        else:
            _run(sys.executable, "-m", "venv", str(folder))
            _run(python, "-m", "pip", "install", "-qq", "-r", str(peer.pins))
        stamp.write_text(pins, encoding="utf-8")
    return [str(peer.python), str(HERE / "worker.py"), peer.adapter]


def pin(peer: Peer) -> None:
    """Write the newest versions of a peer and its dependencies; needs uv."""
    command = ["uv", "pip", "compile", "--quiet", "--python-version", "3.11", "-", "--no-header"]
    command += ["--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    found = subprocess.run(  # noqa: S603 - our own command
        command, input="\n".join(peer.wants), capture_output=True, text=True, check=True
    )
    peer.pins.write_text(found.stdout, encoding="utf-8")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        name = Path(command[0]).name
        raise CannotInstall(f"{name} could not install it ({' '.join(last)[:120]})")
