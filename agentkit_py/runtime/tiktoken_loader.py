"""tiktoken's encodings, loaded without ever hanging.

tiktoken downloads an encoding on first use, without a time-out and while it holds a lock that every
other user of tiktoken in the process waits for. Here an encoding comes from tiktoken's disk cache
where it is there and intact; else a download is tried once per process, in a daemon thread, outside
that lock, and waited for a bounded time. What was decided first holds for the process's life, so
that all counts of one run are made the same way; a download that finishes later has filled the
cache for the next process.

Without network, fill a folder beforehand (``python -m agentkit_py.tiktoken_cache``) and name it in
``TIKTOKEN_CACHE_DIR``.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

TIMEOUT_VARIABLE = "AGENTKIT_TIKTOKEN_TIMEOUT"
"""Environment variable: seconds to wait for a download; 0: never download."""

DEFAULT_TIMEOUT = 5.0
"""Seconds. An encoding has 1 to 4 MB; a working network brings it in about one second."""

_LONGEST_WAIT = 3600.0
"""Seconds; what threads can wait for is bounded on some platforms."""

_HOST = "https://openaipublic.blob.core.windows.net"
_O200K = (
    (
        f"{_HOST}/encodings/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
)
_P50K = (
    (
        f"{_HOST}/encodings/p50k_base.tiktoken",
        "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    ),
)
FILES: dict[str, tuple[tuple[str, str], ...]] = {
    "o200k_base": _O200K,
    "o200k_harmony": _O200K,
    "cl100k_base": (
        (
            f"{_HOST}/encodings/cl100k_base.tiktoken",
            "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        ),
    ),
    "p50k_base": _P50K,
    "p50k_edit": _P50K,
    "r50k_base": (
        (
            f"{_HOST}/encodings/r50k_base.tiktoken",
            "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
        ),
    ),
    "gpt2": (
        (
            f"{_HOST}/gpt-2/encodings/main/vocab.bpe",
            "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
        ),
        (
            f"{_HOST}/gpt-2/encodings/main/encoder.json",
            "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
        ),
    ),
}
"""Address and SHA-256 of each encoding's files, from ``tiktoken_ext/openai_public.py``."""

_log = logging.getLogger("agentkit_py.tokenizers")


class Encoder(Protocol):
    """What we use of ``tiktoken.Encoding``."""

    def encode_ordinary(self, text: str) -> list[int]:
        """The text's tokens, special tokens taken as the text they are written as."""
        ...


class _Loader:
    """The decisions of this process, one per encoding."""

    def __init__(self) -> None:
        self.decisions: dict[str, Encoder | None] = {}
        self._lock = threading.Lock()
        self._offline = False

    def load(self, name: str) -> Encoder | None:
        """The encoding, or None where it cannot be had; logs once where it cannot."""
        if name in self.decisions:
            return self.decisions[name]
        with self._lock:
            if name not in self.decisions:
                self.decisions[name] = self._decide(name)
            return self.decisions[name]

    def _decide(self, name: str) -> Encoder | None:
        try:
            encoder, why = self._attempt(name)
        except Exception as error:  # noqa: BLE001 - a count is never worth a failed run
            encoder, why = None, type(error).__name__
        if encoder is None:
            _log.warning(
                "tiktoken cannot load the encoding %r (%s): token counts are approximate. Fill a "
                "folder with `python -m agentkit_py.tiktoken_cache FOLDER` and point "
                "TIKTOKEN_CACHE_DIR at it.",
                name,
                why,
            )
        return encoder

    def _attempt(self, name: str) -> tuple[Encoder | None, str]:
        import tiktoken.registry

        ready = tiktoken.registry.ENCODINGS.get(name)
        if ready is not None:
            return ready, ""
        if name in FILES and all(_is_cached(*file) for file in FILES[name]):
            return _build(name), ""
        return self._download(name)

    def _download(self, name: str) -> tuple[Encoder | None, str]:
        if self._offline:
            return None, "an earlier download failed"
        seconds = _timeout()
        if seconds == 0:
            return None, f"not in the cache, and {TIMEOUT_VARIABLE} is 0"
        found: list[Encoder] = []
        errors: list[Exception] = []
        worker = threading.Thread(
            target=partial(_collect, name, found, errors), name=f"tiktoken-{name}", daemon=True
        )
        worker.start()
        worker.join(seconds)
        if found:
            return found[0], ""
        # An encoding that does not exist says nothing about the network.
        self._offline = not any(isinstance(error, LookupError) for error in errors)
        why = type(errors[0]).__name__ if errors else f"no answer within {seconds:g} s"
        return None, "no such encoding" if not self._offline else why


_loader = _Loader()


def load_encoding(name: str) -> Encoder | None:
    """The tiktoken encoding ``name``, or None where it cannot be had in bounded time.

    Decided once per process and encoding; a warning is logged once where it is None. Once a
    download has failed, no other is tried in this process.
    """
    return _loader.load(name)


def is_decided(name: str) -> bool:
    """Whether `load_encoding` knows its answer, and so does nothing."""
    return name in _loader.decisions


async def warm_up(name: str) -> None:
    """Decide about the encoding ``name`` in a worker thread, so that nothing waits for it later."""
    if name in _loader.decisions:
        return
    from anyio.to_thread import run_sync  # noqa: PLC0415 - only where something is to be loaded

    await run_sync(load_encoding, name, abandon_on_cancel=True)


def _collect(name: str, found: list[Encoder], errors: list[Exception]) -> None:
    try:
        found.append(_build(name))
    except Exception as error:  # noqa: BLE001 - handed to the thread that waits
        errors.append(error)


def _build(name: str) -> Encoder:
    """Make the encoding as tiktoken's registry does, but without holding its lock meanwhile."""
    import tiktoken
    import tiktoken.registry

    encoding = tiktoken.Encoding(**_constructor(name)())
    return tiktoken.registry.ENCODINGS.setdefault(name, encoding)


def _constructor(name: str) -> Callable[[], dict[str, Any]]:
    import tiktoken
    import tiktoken.registry
    from tiktoken_ext import openai_public  # pyright: ignore[reportMissingTypeStubs] - it has none

    known = cast("dict[str, Callable[[], dict[str, Any]]]", openai_public.ENCODING_CONSTRUCTORS)
    if name in known:
        return known[name]
    tiktoken.list_encoding_names()  # reads the plugins that users may have installed
    return (tiktoken.registry.ENCODING_CONSTRUCTORS or {})[name]


def cached_name(url: str) -> str:
    """What tiktoken calls the file of this address in its cache: as ``tiktoken/load.py`` does."""
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _is_cached(url: str, sha256: str) -> bool:
    """Whether tiktoken's disk cache holds the file, intact: it fetches a damaged one again."""
    folder = _cache_folder()
    if not folder:
        return False
    path = Path(folder) / cached_name(url)
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def _cache_folder() -> str:
    """Where tiktoken caches (``tiktoken/load.py``); empty: nowhere."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return os.environ[variable]
    import tempfile  # noqa: PLC0415 - it loads much that nothing else here needs

    return str(Path(tempfile.gettempdir()) / "data-gym-cache")


def _timeout() -> float:
    """Seconds to wait for a download; what is no number counts as not set."""
    try:
        seconds = float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT))
    except ValueError:
        return DEFAULT_TIMEOUT
    return DEFAULT_TIMEOUT if math.isnan(seconds) else min(max(seconds, 0.0), _LONGEST_WAIT)
