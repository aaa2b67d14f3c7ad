"""PostgreSQL addresses: a check, and a name for errors."""

from __future__ import annotations


def conninfo_problem(conninfo: str) -> str | None:
    """Return an error text for an address that PostgreSQL's client cannot read, else None.

    Its own error quotes the address, password and all, and its pool writes that into the log.
    The text holds nothing of the address.

    Args:
        conninfo: ``postgresql://user:password@host/database``, or ``key=value`` pairs.
    """
    import psycopg  # an extra
    from psycopg.conninfo import conninfo_to_dict  # an extra

    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return (
            "the address of the database cannot be read. Write "
            "postgresql://user:password@host/database, where what is special in a name or password "
            "is percent-encoded, or key=value pairs."
        )
    return None


def database_name(conninfo: str) -> str:
    """Return words for the database: its name and host, without secrets."""
    import psycopg  # an extra
    from psycopg.conninfo import conninfo_to_dict  # an extra

    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return "The PostgreSQL database"
    host = found.get("host", "localhost")
    return f"The PostgreSQL database {found.get('dbname', '')!r} at {host}"
