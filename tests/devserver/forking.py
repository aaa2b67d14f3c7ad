"""Workers that share one address, each a process that is made again when it dies.

The modules are imported once, so a worker that was killed is back within milliseconds.
"""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn

WORKERS = "workers"
"""Name of the file with the workers' process ids."""


def serve(app: Any, port: int, count: int, folder: Path) -> None:
    """Serve until this process ends, and the workers with it."""
    listening = socket.create_server(("127.0.0.1", port), backlog=256)
    alive, held = os.pipe()
    workers: set[int] = set()
    while True:
        while len(workers) < count:
            workers.add(_fork(app, listening, alive, held))
        temporary = folder / f"{WORKERS}.new"
        temporary.write_text(" ".join(map(str, workers)))
        temporary.replace(folder / WORKERS)
        workers.discard(os.wait()[0])


def _fork(app: Any, listening: socket.socket, alive: int, held: int) -> int:
    process = os.fork()
    if process:
        return process
    os.close(held)
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()
    config = uvicorn.Config(app, log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])
    os._exit(0)


def _end_with_parent(alive: int) -> None:
    os.read(alive, 1)  # gives something when the other end is closed
    os._exit(1)
