"""The fake provider over real HTTP/1.1, on loopback, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from http import HTTPStatus

import h11

from .handler import Answer, Handler

_MAX_HEAD = 1 << 20
_UNLISTED = {529: "Overloaded"}  # Anthropic's own


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
        server = await asyncio.start_server(self._accept, sock=self._socket)
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
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client hung up, or the server is being stopped
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        while True:
            try:
                received = await _receive(connection, reader, writer)
            except h11.RemoteProtocolError:
                if connection.their_state is h11.ERROR and connection.our_state is h11.IDLE:
                    await _send(connection, writer, Answer(400, {}, b"Bad Request"))
                return
            if received is None:
                return
            await _send(connection, writer, await self._answer(*received))
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _answer(self, request: h11.Request, content: bytes) -> Answer:
        headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers]
        host = dict(headers).get("host", "")
        method, target = request.method.decode(), request.target.decode("latin-1")
        try:
            return await self._handler.answer(method, host, target, headers, content)
        except Exception as error:  # noqa: BLE001 - a script's mistake; nobody awaits this thread
            words = f"FakeProvider's script failed: {type(error).__name__}: {error}"
            return Answer(500, {"content-type": "text/plain"}, words.encode())


async def _receive(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[h11.Request, bytes] | None:
    """Return the next request with its body; `None` if the client has closed the connection."""
    request: h11.Request | None = None
    content = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(1 << 16))
        elif isinstance(event, h11.Request):
            request = event
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                writer.write(connection.send(go_on))
        elif isinstance(event, h11.Data):
            content += event.data
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request, bytes(content)
        else:
            return None


async def _send(connection: h11.Connection, writer: asyncio.StreamWriter, answer: Answer) -> None:
    """Send an answer; without its end the client knows that the body was cut."""
    if answer.delay:
        await asyncio.sleep(answer.delay)
    if answer.disconnect:
        return
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = _UNLISTED.get(answer.status, "Unknown")
    headers = dict(answer.headers)
    if answer.pieces is None:
        headers["content-length"] = str(len(answer.body))
    else:
        headers["transfer-encoding"] = "chunked"
    if answer.cut:
        headers["connection"] = "close"
    head = h11.Response(
        status_code=answer.status, headers=list(headers.items()), reason=phrase.encode()
    )
    writer.write(connection.send(head))
    for number, piece in enumerate([answer.body] if answer.pieces is None else answer.pieces):
        if number and answer.pause:
            await asyncio.sleep(answer.pause)
        writer.write(connection.send(h11.Data(data=piece)))
        await writer.drain()
    if not answer.cut:
        writer.write(connection.send(h11.EndOfMessage()))
        await writer.drain()
