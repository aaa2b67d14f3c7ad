"""An environment of its own for each peer, under .cache/peers, with the versions pinned here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".cache" / "peers"
PINS = HERE / "requirements"


@dataclass(frozen=True, slots=True)
class Peer:
    """One framework, and what its environment has to hold."""

    name: str
    adapter: str
    wants: tuple[str, ...] = ()
    """What ``--pin`` asks for; the versions it finds are written to ``requirements``."""

    @property
    def pins(self) -> Path:
        """The file with its versions."""
        return PINS / f"{self.name}.txt"

    @property
    def folder(self) -> Path:
        """Its environment."""
        return CACHE / self.name


PEERS = (
    Peer("agno", "peer_agno", ("agno", "sqlalchemy", "greenlet")),
    Peer("pydantic-ai", "peer_pydantic_ai", ("pydantic-ai-slim",)),
    Peer("openai-agents", "peer_openai_agents", ("openai-agents",)),
    Peer("langgraph", "peer_langgraph", ("langgraph", "langchain", "langgraph-checkpoint-sqlite")),
    Peer("strands-agents", "peer_strands", ("strands-agents",)),
    Peer("agent-framework", "peer_agent_framework", ("agent-framework-core",)),
    Peer("autogen", "peer_autogen", ("autogen-agentchat", "autogen-core")),
    # Without its extra each run tries anew to import a module of it, for 10 ms.
    Peer(
        "google-adk", "peer_google_adk", ("google-adk[a2a]", "aiosqlite", "sqlalchemy", "greenlet")
    ),
)
TYPESCRIPT = Peer("typescript", "typescript")


class CannotInstall(Exception):  # noqa: N818 - no error: the page says why a peer is not there
    """The peer's packages cannot be had here."""


def environment() -> dict[str, str]:
    """What the processes get: byte code is kept, and no framework sends anything anywhere."""
    found = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    tokens = ROOT / ".cache" / "tiktoken"
    if tokens.is_dir():
        found["TIKTOKEN_CACHE_DIR"] = str(tokens)
    return found


def ours(adapter: str) -> list[str]:
    """What starts one of ours, in this environment."""
    return [sys.executable, str(HERE / "worker.py"), adapter]


def installed(peer: Peer) -> list[str]:
    """What starts a peer's worker, its packages installed.

    Raises:
        CannotInstall: They cannot be had.
    """
    stamp, pins = peer.folder / ".installed", peer.pins.read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != pins:
        print(f"installing {peer.name}", file=sys.stderr, flush=True)
        shutil.rmtree(peer.folder, ignore_errors=True)
        peer.folder.parent.mkdir(parents=True, exist_ok=True)
        (_install_node if peer is TYPESCRIPT else _install_python)(peer)
        stamp.write_text(pins, encoding="utf-8")
    if peer is TYPESCRIPT:
        return [_tool("node"), "--expose-gc", str(HERE / "typescript.mjs"), str(peer.folder)]
    return [str(_python(peer)), str(HERE / "worker.py"), peer.adapter]


def pin(peer: Peer) -> None:
    """Write the newest versions of a peer and of all that it needs; needs uv."""
    command = [_tool("uv"), "pip", "compile", "--quiet", "--python-version", "3.11", "-"]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    found = subprocess.run(  # noqa: S603 - our own command
        command, input="\n".join(peer.wants), capture_output=True, text=True, check=True
    )
    peer.pins.write_text(found.stdout, encoding="utf-8")


def _python(peer: Peer) -> Path:
    names = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return peer.folder.joinpath(*names)


def _install_python(peer: Peer) -> None:
    if shutil.which("uv"):
        _run("uv", "venv", "--quiet", "--python", sys.executable, str(peer.folder))
        python = str(_python(peer))
        _run("uv", "pip", "install", "--quiet", "--python", python, "-r", str(peer.pins))
        return
    _run(sys.executable, "-m", "venv", str(peer.folder))
    quiet = ("-qq", "--disable-pip-version-check")
    _run(str(_python(peer)), "-m", "pip", "install", *quiet, "-r", str(peer.pins))


def _install_node(peer: Peer) -> None:
    """A folder with packages beside each other; npm's file of addresses stays in the cache."""
    pairs = [line.rsplit("@", 1) for line in peer.pins.read_text(encoding="utf-8").split()]
    package = {"private": True, "type": "module", "dependencies": dict(pairs)}
    peer.folder.mkdir()
    (peer.folder / "package.json").write_text(json.dumps(package), encoding="utf-8")
    npm = _tool("npm")
    _run(npm, "install", "--prefix", str(peer.folder), "--no-audit", "--no-fund", "--silent")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CannotInstall(f"{name} is not on this machine")
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotInstall(
            f"{Path(command[0]).name} could not install it ({' '.join(last)[:120]})"
        )
