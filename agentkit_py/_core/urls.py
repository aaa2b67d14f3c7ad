"""Addresses: names as parts of them; those of strangers lead into no private network."""

from __future__ import annotations

import ipaddress
import os
import re
from urllib.parse import quote, urlsplit

ALLOWED_HOSTS = "AGENTKIT_ALLOWED_HOSTS"
"""Environment variable: hosts, separated by commas, that may be private all the same."""

_FETCHED = frozenset({"http", "https"})
_PASSED_ON = frozenset({"data", "gs"})
"""Schemes that name bytes, or a file at the provider."""

_PRIVATE_NAMES = re.compile(
    r"localhost|[^.]+|.*\.(?:localhost|local|internal|intranet|lan|home|corp|private|arpa)"
)
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE)


def in_path(name: str, keep: str = "") -> str:
    """Return a name as a part of a URL's path; characters in ``keep`` stay as they are."""
    return quote(name, safe=keep)


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine only."""
    name = host.strip("[]").lower()
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def private_address(url: str) -> str | None:
    """Return why a URL that a stranger may have written should not be fetched, else None.

    Refused are addresses and names of private networks and of this machine, in every notation that
    programs understand, and schemes other than ``http``, ``https``, ``data`` and ``gs``. What a
    public name resolves to is not known here: who fetches has to look, too.
    """
    cleaned = re.sub(r"[\x00-\x20\x7f]", "", url).replace("\\", "/")  # as browsers and curl read it
    try:
        parts = urlsplit(cleaned)
        host = (parts.hostname or "").rstrip(".").lower()
    except ValueError:
        return "it cannot be read"
    if parts.scheme.lower() in _PASSED_ON:
        return None
    if parts.scheme.lower() not in _FETCHED:
        return f"its scheme is {parts.scheme or 'missing'!r:.40}"
    if not host:
        return "it has no host"
    if host in _allowed():
        return None
    try:
        host = host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return "its host cannot be read"
    address = _address(host)
    if address is None:
        return "its host is a private name" if _PRIVATE_NAMES.fullmatch(host) else None
    return None if _is_public(address) else "its host is a private address"


def _allowed() -> frozenset[str]:
    given = os.environ.get(ALLOWED_HOSTS, "")
    return frozenset(host.strip().lower() for host in given.split(",") if host.strip())


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host is: also ``127.1``, ``0x7f000001`` and ``2130706433``."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    numbers = host.split(".")
    if len(numbers) > 4 or not all(_NUMBER.fullmatch(one) for one in numbers):  # noqa: PLR2004 - bytes of an address
        return None
    try:
        *first, last = map(_value, numbers)
        value = sum(one << (24 - 8 * place) for place, one in enumerate(first)) + last
        return ipaddress.IPv4Address(value)
    except ValueError:
        return ipaddress.IPv4Address(0)  # whatever a program makes of it


def _value(number: str) -> int:
    if number[:2] in ("0x", "0X"):
        return int(number[2:] or "0", 16)
    return int(number, 8 if len(number) > 1 and number.startswith("0") else 10)


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or [None])[0]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
    return address.is_global and not address.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
