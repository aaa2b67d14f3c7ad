"""The worker process: ``python -m tests.devserver.worker PORT MODEL_URL FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import fastapi
import inngest
import inngest.fast_api
import uvicorn

from .support import APP, functions_of


def main(port: str, model_url: str, folder: str) -> None:
    """Serve until somebody ends the process."""
    client = inngest.Inngest(app_id=APP)
    app = fastapi.FastAPI()
    functions = functions_of(client, model_url=model_url, folder=Path(folder))
    inngest.fast_api.serve(app, client, functions)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
