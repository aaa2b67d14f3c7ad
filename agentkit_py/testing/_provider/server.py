"""The fake provider over real HTTP/1.1, on loopback, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from http import HTTPStatus

from .handler import Answer, Handler

# Whole recorded conversations travel in one body, so the limit on a line is no limit on a body.
_LINE_LIMIT = 1 << 20
_REQUEST_LINE_WORDS = 3  # method, target, version
_UNLISTED = {529: "Overloaded"}  # Anthropic's own


class _BadRequestError(Exception):
    """The bytes are not HTTP/1.1; the connection is closed with a 400."""


class LoopbackServer:
    """Serves a handler at an ephemeral port of 127.0.0.1."""

    def __init__(self, handler: Handler) -> None:
        """Bind the socket at once, so that the port is known and connections queue up."""
        self._handler = handler
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._main, name="fake-provider", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close every connection, waiting replies included, and end the thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _main(self) -> None:
        # A client that goes away mid-answer is everyday life here, not news for stderr.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._loop.run_until_complete(self._run())
        self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._socket, limit=_LINE_LIMIT)
        await self._stopping.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # start_server runs every connection in a task
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client hung up, or the server is being stopped
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await _read_head(reader)
                if head is None:
                    return
                method, target, headers = head
                fields = {name.lower(): value for name, value in headers}
                if fields.get("expect", "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                content = await _read_body(reader, fields)
            except (_BadRequestError, ValueError, asyncio.LimitOverrunError):
                writer.write(_encode(Answer(400, {}, b"Bad Request"), keep_alive=False))
                await writer.drain()
                return
            host = fields.get("host", "")
            answer = await self._answer(method, host, target, headers, content)
            keep_alive = fields.get("connection", "").lower() != "close" and not answer.cut
            if not await _send(writer, answer, keep_alive=keep_alive):
                return

    async def _answer(
        self, method: str, host: str, target: str, headers: list[tuple[str, str]], content: bytes
    ) -> Answer:
        try:
            return await self._handler.answer(method, host, target, headers, content)
        except Exception as error:  # noqa: BLE001 - a script's mistake; nobody awaits this thread
            words = f"FakeProvider's script failed: {type(error).__name__}: {error}"
            return Answer(500, {"content-type": "text/plain"}, words.encode())


async def _send(writer: asyncio.StreamWriter, answer: Answer, *, keep_alive: bool) -> bool:
    """Send an answer; returns whether the connection stays open."""
    if answer.delay:
        await asyncio.sleep(answer.delay)
    if answer.disconnect:
        return False
    writer.write(_encode(answer, keep_alive=keep_alive))
    await writer.drain()
    if answer.pieces is not None:
        await _send_pieces(writer, answer)
    return keep_alive


async def _send_pieces(writer: asyncio.StreamWriter, answer: Answer) -> None:
    """Send each piece by itself; without the last, empty one the client knows that it was cut."""
    for number, piece in enumerate(answer.pieces or ()):
        if number and answer.pause:
            await asyncio.sleep(answer.pause)
        if piece:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
    if not answer.cut:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _read_head(
    reader: asyncio.StreamReader,
) -> tuple[str, str, list[tuple[str, str]]] | None:
    """Read the request line and the headers; `None` if the client has closed the connection."""
    try:
        block = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise _BadRequestError from error
        return None
    first, *lines = block.decode("latin-1").strip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != _REQUEST_LINE_WORDS or not words[2].startswith("HTTP/1."):
        raise _BadRequestError
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise _BadRequestError
        headers.append((name.strip(), value.strip()))
    return words[0], words[1], headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        chunks: list[bytes] = []
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size == 0:
                break
            chunks.append(await reader.readexactly(size))
            await reader.readexactly(2)
        while (await reader.readuntil(b"\r\n")) != b"\r\n":
            pass  # trailers
        return b"".join(chunks)
    return await reader.readexactly(int(headers.get("content-length", "0")))


def _encode(answer: Answer, *, keep_alive: bool) -> bytes:
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = _UNLISTED.get(answer.status, "Unknown")
    in_pieces = answer.pieces is not None
    size = (
        {"transfer-encoding": "chunked"} if in_pieces else {"content-length": str(len(answer.body))}
    )
    headers = {**answer.headers, **size, "connection": "keep-alive" if keep_alive else "close"}
    lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    body = b"" if in_pieces else answer.body
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
