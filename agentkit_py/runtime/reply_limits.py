"""Limits of what a provider may answer: bytes, also when decompressed, and the length of a line."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpx

MOST_BYTES = 64 * 2**20
"""Bytes of an answer after decompression: long replies with several images have fewer."""

LONGEST_LINE = 32 * 2**20
"""Bytes of one line of a stream: an event with an image has fewer."""

PATIENCE = 5
"""Times the model's time-out that an answer may take which only says that it goes on: comments and
pings of a stream, or a body that comes byte by byte."""

_AT_ONCE = 2**20
_ZLIB_OR_GZIP = 47
"""The window bits with which zlib detects a gzip or zlib header."""

ACCEPTED = "gzip, deflate"
"""The value of ``accept-encoding``: what can be decompressed piece by piece."""


class ReplyTooLargeError(httpx.DecodingError):
    """An answer exceeds a limit, or is compressed in a way that was not asked for."""


def bound(response: httpx.Response, *, lines: bool = False) -> None:
    """Limit the body of a response that is not yet read; it is decompressed here.

    Args:
        response: The response; reading it raises `ReplyTooLargeError` beyond a limit.
        lines: Limit each line, too.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    response.headers.pop("content-encoding", None)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Bounded(response.stream, encoding, lines=lines)


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, encoding: str, *, lines: bool) -> None:
        self._stream = stream
        self._encoding = encoding
        self._lines = lines
        self._size = 0
        self._line = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ReplyTooLargeError(f"it is compressed with {self._encoding!r:.40}")
        unpack = None if self._encoding in ("", "identity") else _Unpacker(self._encoding)
        async for piece in self._stream:
            if unpack is None:
                self._count(piece)
                yield piece
                continue
            while piece:
                made, piece = unpack(piece)  # noqa: PLW2901 - what is left of it
                self._count(made)
                yield made

    def _count(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MOST_BYTES:
            raise ReplyTooLargeError(f"it has more than {MOST_BYTES:,} bytes")
        if self._lines:
            first, *others = piece.replace(b"\r", b"\n").split(b"\n")
            longest = max(self._line + len(first), *map(len, others), 0)
            if longest > LONGEST_LINE:
                raise ReplyTooLargeError(f"a line has more than {LONGEST_LINE:,} bytes")
            self._line = len(others[-1]) if others else self._line + len(first)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Unpacker:
    """Decompresses piece by piece, at most a mebibyte at once."""

    def __init__(self, encoding: str) -> None:
        self._inner = zlib.decompressobj(_ZLIB_OR_GZIP)
        self._may_be_raw = encoding == "deflate"

    def __call__(self, piece: bytes) -> tuple[bytes, bytes]:
        """Return what came out, and what of the piece is still to be read."""
        try:
            made = self._inner.decompress(piece, _AT_ONCE)
        except zlib.error as error:
            if not self._may_be_raw:
                raise httpx.DecodingError(str(error)) from error
            self._inner = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers leave the header out
            self._may_be_raw = False
            return self(piece)
        self._may_be_raw = False
        return made, b"" if self._inner.eof else self._inner.unconsumed_tail
