"""tiktoken's encodings, loaded in bounded time or not at all.

tiktoken downloads an encoding on first use, without a time-out. Here an encoding comes from
tiktoken's disk cache where it is there and intact; else a download is tried once per process, in a
daemon thread, and waited for a bounded time. The first decision holds for the life of the process,
so that all counts of a run are made the same way.

Without network, fill a folder beforehand (``python -m agentkit_py.tiktoken_cache``) and name it in
``TIKTOKEN_CACHE_DIR``.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from pathlib import Path
from typing import Protocol

from agentkit_py._core.untrusted import get_logger

TIMEOUT_VARIABLE = "AGENTKIT_TIKTOKEN_TIMEOUT"
"""Environment variable: seconds to wait for a download; 0: never download."""

DEFAULT_TIMEOUT = 5.0
"""Seconds. An encoding has 1 to 4 MB; a working network loads it in about a second."""

_LONGEST_WAIT = 3600.0
"""Seconds; the time-outs of threads are bounded on some platforms."""

_HOST = "https://openaipublic.blob.core.windows.net"
_GPT2 = f"{_HOST}/gpt-2/encodings/main"
_VOCABULARIES = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
}
_FILES = {
    name: ((f"{_HOST}/encodings/{name}.tiktoken", sha256),)
    for name, sha256 in _VOCABULARIES.items()
}
FILES: dict[str, tuple[tuple[str, str], ...]] = {
    **_FILES,
    "o200k_harmony": _FILES["o200k_base"],
    "p50k_edit": _FILES["p50k_base"],
    "gpt2": (
        (
            f"{_GPT2}/vocab.bpe",
            "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
        ),
        (
            f"{_GPT2}/encoder.json",
            "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
        ),
    ),
}
"""Address and SHA-256 of each encoding's files, from ``tiktoken_ext/openai_public.py``."""

_log = get_logger("agentkit_py.tokenizers")


class Encoder(Protocol):
    """The part of ``tiktoken.Encoding`` that is used here."""

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the text's tokens, special tokens taken as the text they are written as."""
        ...


_decisions: dict[str, Encoder | None] = {}
_lock = threading.Lock()
_failed: list[threading.Thread] = []
"""Downloads that failed, or went on for too long."""


def load_encoding(name: str) -> Encoder | None:
    """Return the tiktoken encoding ``name``, or None where it cannot be had in bounded time.

    Decided once per process and encoding; a warning is logged once where it is None. Once a
    download has failed, no other is tried in this process.
    """
    if name not in _decisions:
        with _lock:
            if name not in _decisions:
                _decisions[name] = _decide(name)
    return _decisions[name]


def is_decided(name: str) -> bool:
    """Return whether `load_encoding` knows its answer, and so does nothing."""
    return name in _decisions


async def warm_up(name: str) -> None:
    """Decide about the encoding in a worker thread, so that nothing waits for it later."""
    if not is_decided(name):
        from anyio.to_thread import run_sync  # noqa: PLC0415 - only for a load

        await run_sync(load_encoding, name, abandon_on_cancel=True)


def _decide(name: str) -> Encoder | None:
    try:
        return _load(name)
    except Exception as error:  # noqa: BLE001 - a count is never worth a failed run
        reason = str(error) if isinstance(error, _NotAvailableError) else type(error).__name__
    _log.warning(
        "tiktoken cannot load the encoding %r (%s): token counts are approximate. Fill a folder "
        "with `python -m agentkit_py.tiktoken_cache FOLDER` and point TIKTOKEN_CACHE_DIR at it.",
        name,
        reason,
    )
    return None


class _NotAvailableError(Exception):
    """An encoding cannot be had; the message says why."""


def _load(name: str) -> Encoder:
    import tiktoken
    import tiktoken.registry

    if name in tiktoken.registry.ENCODINGS:
        return tiktoken.registry.ENCODINGS[name]
    if any(worker.is_alive() for worker in _failed):  # tiktoken holds a lock meanwhile
        raise _NotAvailableError("an earlier download hangs")
    if name in FILES and all(_is_cached(*file) for file in FILES[name]):
        return tiktoken.get_encoding(name)
    if _failed:
        raise _NotAvailableError("an earlier download failed")
    seconds = _timeout()
    if seconds == 0:
        raise _NotAvailableError(f"not in the cache, and {TIMEOUT_VARIABLE} is 0")
    return _download(name, seconds)


def _download(name: str, seconds: float) -> Encoder:
    import tiktoken

    found: list[Encoder] = []
    errors: list[Exception] = []

    def download() -> None:
        try:
            found.append(tiktoken.get_encoding(name))
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            errors.append(error)

    worker = threading.Thread(target=download, name=f"tiktoken-{name}", daemon=True)
    worker.start()
    worker.join(seconds)
    if found:
        return found[0]
    if errors and isinstance(errors[0], ValueError):  # says nothing about the network
        raise _NotAvailableError("no such encoding")
    _failed.append(worker)
    raise errors[0] if errors else _NotAvailableError(f"no answer within {seconds:g} s")


def cached_name(url: str) -> str:
    """Return tiktoken's name of this address's file in its cache, as ``tiktoken/load.py`` does."""
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _is_cached(url: str, sha256: str) -> bool:
    """Return whether tiktoken's disk cache holds the file, intact: it replaces a damaged file."""
    folder = _cache_folder()
    if not folder:
        return False
    try:
        content = (Path(folder) / cached_name(url)).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() == sha256


def _cache_folder() -> str:
    """Return the folder that tiktoken caches in (``tiktoken/load.py``); empty: none."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return os.environ[variable]
    import tempfile  # noqa: PLC0415 - it loads much that nothing else here needs

    return str(Path(tempfile.gettempdir()) / "data-gym-cache")


def _timeout() -> float:
    """Return the seconds to wait for a download; a value that is not a number counts as not set."""
    try:
        seconds = float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT))
    except ValueError:
        return DEFAULT_TIMEOUT
    return DEFAULT_TIMEOUT if math.isnan(seconds) else min(max(seconds, 0.0), _LONGEST_WAIT)
