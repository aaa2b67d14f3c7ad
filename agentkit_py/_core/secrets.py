"""Secrets in the text of errors: addresses with passwords, assigned passwords, keys of services."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"

_ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/@'\"<>]{1,512}@[^\s'\"<>]*")
_ASSIGNED = re.compile(
    r"\b(pass(?:word|wd|phrase)?|pwd|[a-z_-]{0,20}secret(?:_key)?|(?:access|auth|api|refresh|id)[_-]?token"
    r"|(?:api|access|private)[_-]?key|authorization)"
    r"(['\"]?\s{0,3}[=:]\s{0,3}['\"]?)(?:(?:bearer|basic)\s{1,3})?[^\s'\",;&)}\]]{1,512}",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\b(?:(?:sk|pk|rk|ghp|gho|xox[abps])[-_][A-Za-z0-9_-]{16,256}|AKIA[0-9A-Z]{16})\b"
)


def without_secrets(text: str) -> str:
    """Return text without secrets.

    An address that holds a user or a password goes as a whole, since its host is nothing for
    strangers either.
    """
    text = _ADDRESS.sub(rf"\1{HIDDEN}", text)
    return _KEY.sub(HIDDEN, _ASSIGNED.sub(rf"\1\2{HIDDEN}", text))
