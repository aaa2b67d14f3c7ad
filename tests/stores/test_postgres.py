"""Behaviour of PostgresHistory that other stores lack, on a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from agentkit_py.errors import ConfigurationError, HistoryError, StoreVersionError
from agentkit_py.results import AgentResult
from agentkit_py.stores import PostgresHistory
from agentkit_py.stores._postgres_server import VERSION
from agentkit_py.stores._sql_session import TABLES

Make = Callable[..., PostgresHistory]


@pytest.fixture
def make(postgres_url: str, postgres_schema: str) -> Make:
    """Makes a store in the test's own schema."""

    def made(prefix: str = "agentkit_", connections: int = 4) -> PostgresHistory:
        return PostgresHistory(
            postgres_url, schema=postgres_schema, prefix=prefix, connections=connections
        )

    return made


def user(text: str) -> AgentResult:
    """Return a user's message with an id made of its text."""
    return AgentResult.from_user(text, id=f"id of {text}")


async def test_stores_with_different_prefixes_share_one_schema(
    make: Make, postgres_url: str, postgres_schema: str
) -> None:
    """Each has its own tables."""
    async with make("a_") as one, make("b_") as other:
        await one.add_thread("t")
        assert not await other.thread_exists("t")
    with psycopg.connect(postgres_url) as connection:
        query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = %s"
        row = connection.execute(query, (postgres_schema,)).fetchone()
    assert row == (2 * len([*TABLES, "version"]),)


@pytest.mark.parametrize("name", ["a b", 'a"; DROP SCHEMA public', "1a", "é", "a" * 41, "a.b"])
def test_schema_and_prefix_have_to_be_plain_names(name: str) -> None:
    """They are refused before anything is connected."""
    with pytest.raises(ConfigurationError, match="schema"):
        PostgresHistory("", schema=name)
    with pytest.raises(ConfigurationError, match="prefix"):
        PostgresHistory("", prefix=name)


async def test_eight_stores_create_the_tables_at_once(make: Make) -> None:
    """One does, the others wait."""
    stores = [make() for _ in range(8)]
    await asyncio.gather(*(store.setup() for store in stores))
    await asyncio.gather(*(store.add_thread(str(n)) for n, store in enumerate(stores)))
    assert len(await stores[0].list_threads()) == 8
    for store in stores:
        await store.close()


async def test_tables_of_a_newer_version_are_an_error_with_both_versions(
    make: Make, postgres_url: str, postgres_schema: str
) -> None:
    """Nothing in them is touched."""
    async with make():
        pass
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            sql.SQL("UPDATE {}.agentkit_version SET version = 99").format(
                sql.Identifier(postgres_schema)
            )
        )
    store = make()
    with pytest.raises(StoreVersionError, match="Upgrade pyagentkit") as caught:
        await store.load("t")
    await store.close()
    assert (caught.value.found, caught.value.supported) == (99, VERSION)


async def test_connections_that_the_server_ends_are_replaced(make: Make, postgres_url: str) -> None:
    """All of the pool at once, as in a restart; nothing is lost or doubled."""
    async with make() as store:
        await store.add_thread("t")
        for round_ in range(3):
            await asyncio.gather(*(store.append("t", [user(f"{round_} {n}")]) for n in range(4)))
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        await asyncio.gather(*(store.append("t", [user(f"last {n}")]) for n in range(4)))
        assert await store.count_results("t") == 16


async def test_a_cancelled_save_is_stored_whole_or_not_at_all(make: Make) -> None:
    """Positions have no gaps."""
    async with make() as store:
        await store.add_thread("t")
        results = [user(str(n)) for n in range(50)]
        task = asyncio.create_task(store.append("t", results))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.append("t", [user("after")])
    async with make() as store:
        positions = [record.position for record in await store.stored_results("t")]
    assert positions == list(range(len(positions)))
    assert len(positions) in (1, 51)


async def test_an_unreachable_server_is_an_error_without_the_password() -> None:
    """The database and the host are named."""
    store = PostgresHistory("postgresql://u:secret@127.0.0.1:1/nowhere", wait=5)
    with pytest.raises(HistoryError, match=r"'nowhere' at 127\.0\.0\.1") as caught:
        await store.setup()
    await store.close()
    assert "secret" not in f"{caught.value} {store!r}"


@pytest.mark.parametrize("address", ["mysql://u:secret@h/x", "postgresql://u:a%secret@h/x"])
def test_an_address_that_cannot_be_read_is_refused_without_quoting_it(address: str) -> None:
    """Psycopg's own error quotes the password, and its pool logs it."""
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        PostgresHistory(address)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


async def test_zero_bytes_in_ids_and_titles_are_kept(make: Make) -> None:
    """PostgreSQL has no text with them, so they are written as escapes."""
    odd = "a\0b\x1a0\x1a"
    async with make() as store:
        await store.add_thread(odd, user_id=odd, title=odd, metadata={odd: odd})
        await store.append(odd, [AgentResult.from_user(odd, id=odd)])
        (info,) = await store.list_threads(user_id=odd)
        assert (info.id, info.user_id, info.title, info.metadata) == (odd, odd, odd, {odd: odd})
        assert [result.id for result in await store.load(odd)] == [odd]


async def test_a_store_serves_short_lived_event_loops(make: Make) -> None:
    """Scripts start a new one with each call."""
    store = make()

    def script() -> int:
        asyncio.run(store.append("t", [user("again")]))
        return asyncio.run(store.count_results("t"))

    await store.add_thread("t")
    counts = [await asyncio.to_thread(script) for _ in range(3)]
    await store.close()
    assert counts == [1, 1, 1]


def test_a_program_ends_without_closing_its_store(postgres_url: str, postgres_schema: str) -> None:
    """There is no warning."""
    program = (
        "import asyncio, sys\n"
        "from agentkit_py.stores import PostgresHistory\n"
        "store = PostgresHistory(sys.argv[1], schema=sys.argv[2])\n"
        "asyncio.run(store.add_thread('t'))\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, postgres_url, postgres_schema]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_a_disk_that_is_full_is_an_error_and_stores_nothing(
    make: Make, postgres_url: str, postgres_schema: str
) -> None:
    """A trigger raises the server's error; after it, everything works."""
    raises = (
        "CREATE FUNCTION {s}.fills() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.position > 0 THEN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; "
        "END IF; RETURN NEW; END $$"
    )
    fires = (
        "CREATE TRIGGER fills BEFORE INSERT ON {s}.agentkit_results FOR EACH ROW "
        "EXECUTE FUNCTION {s}.fills()"
    )
    async with make() as store:
        await store.add_thread("t")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for statement in (raises, fires):
                name = sql.Identifier(postgres_schema)
                connection.execute(sql.SQL(statement).format(s=name))
            with pytest.raises(HistoryError, match="the disk is full; nothing was saved"):
                await store.append("t", [user("a"), user("b")])
            assert await store.load("t") == []
            name = sql.Identifier(postgres_schema)
            connection.execute(sql.SQL("DROP TRIGGER fills ON {}.agentkit_results").format(name))
        await store.append("t", [user("a"), user("b")])
        assert await store.count_results("t") == 2


async def test_a_read_only_role_is_an_error_that_says_so(
    make: Make, postgres_url: str, postgres_schema: str
) -> None:
    """Reading still works."""
    async with make() as store:
        await store.add_thread("t")
    joint = "&" if "?" in postgres_url else "?"
    option = f"{postgres_url}{joint}options=-c%20default_transaction_read_only%3Don"
    async with PostgresHistory(option, schema=postgres_schema) as store:
        with pytest.raises(HistoryError, match="may not be written"):
            await store.append("t", [user("hi")])
        assert await store.load("t") == []
