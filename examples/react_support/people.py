"""Who is here: signing in, and the files that people send.

Yours is your company's sign-in and your store of files. Here people choose who they are, without a
password; the cookie is signed, so that nobody becomes somebody else later.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

PEOPLE = {"ada": "Ada Lind", "ben": "Ben Okoro", "mia": "Mia Sandberg"}
STAFF = {"mia"}
SECRET = os.environ.get("DESK_SECRET") or secrets.token_hex()
FILES = Path(os.environ.get("DESK_FILES", "files"))
TYPES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
}
LARGEST = 5 * 2**20


def _signature(user: str) -> str:
    return hmac.digest(SECRET.encode(), user.encode(), "sha256").hex()


def signed_in(request: Request) -> str | None:
    """Return the user of a request: what ``create_app(auth=…)`` asks for."""
    user, _, signature = request.cookies.get("desk", "").partition(".")
    known = user in PEOPLE and hmac.compare_digest(signature.encode(), _signature(user).encode())
    return user if known else None


async def me(request: Request) -> Response:
    """Say who asks, and who there is to choose from."""
    user = signed_in(request)
    if user is not None:
        return JSONResponse({"id": user, "name": PEOPLE[user], "staff": user in STAFF})
    people = [{"id": i, "name": n, "staff": i in STAFF} for i, n in PEOPLE.items()]
    return JSONResponse({"people": people})


async def sign_in(request: Request) -> Response:
    """Set the cookie of a person, or take it away."""
    try:
        user = (await request.json()).get("id")
    except (ValueError, AttributeError):
        return JSONResponse({"error": "Send JSON: {id}."}, 400)
    answer = JSONResponse({"success": True})
    if isinstance(user, str) and user in PEOPLE:
        value = f"{user}.{_signature(user)}"
        answer.set_cookie("desk", value, httponly=True, samesite="strict", path="/")
    else:
        answer.delete_cookie("desk")
    return answer


async def upload(request: Request) -> Response:
    """Keep a picture or a PDF, and give its address."""
    user, ending = signed_in(request), TYPES.get(request.headers.get("content-type", ""))
    if user is None:
        return JSONResponse({"error": "Sign in first."}, 401)
    if ending is None:
        return JSONResponse({"error": "Send a PNG, JPEG or WebP picture, or a PDF."}, 415)
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > LARGEST:
            return JSONResponse({"error": "Files have at most 5 MB."}, 413)
    name = secrets.token_urlsafe(16) + ending
    (FILES / user).mkdir(parents=True, exist_ok=True)
    (FILES / user / name).write_bytes(content)
    return JSONResponse({"url": f"/files/{name}"})


async def download(request: Request) -> Response:
    """Give a file to who sent it, and to staff."""
    user, name = signed_in(request), request.path_params["name"]
    whose = PEOPLE if user in STAFF else [user] if user else []
    paths = [FILES / who / name for who in whose if re.fullmatch(r"[\w-]+\.[a-z]+", name)]
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        return JSONResponse({"error": "There is no such file."}, 404)
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
    return FileResponse(found, headers=headers)


routes = [
    Route("/me", me),
    Route("/sign-in", sign_in, methods=["POST"]),
    Route("/files", upload, methods=["POST"]),
    Route("/files/{name}", download),
]
