"""Where requests go and with which headers, in the reference model."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urljoin, urlsplit

from ..vectors import Json
from .core import Switches, our_failure
from .responses import is_asked


def request_record(run: int, model: dict[str, Json], body: Json, on: Switches) -> dict[str, Json]:
    """A request as it is compared."""
    provider, options = model["provider"], model["options"]
    headers = {"content-type": "application/json"}
    query: dict[str, str] = {}
    key = options.get("apiKey")
    if is_asked(model, on):
        azure = provider == "azure-openai"
        root = options["endpoint"] if azure else options["baseUrl"]
        url = _joined(root, "openai/v1/responses" if azure else "responses", on)
        headers |= {"api-key": key} if azure else _bearer(provider, key, on)
    elif provider == "azure-openai":
        path = f"openai/deployments/{options['deployment']}/chat/completions"
        url = _address(options["endpoint"], urljoin(options["endpoint"], path), path, on)
        query["api-version"] = options["apiVersion"]
        headers["api-key"] = key
    elif provider == "anthropic":
        url = _joined(options["baseUrl"], "messages", on)
        headers |= {"x-api-key": key, "anthropic-version": "2023-06-01"}
        if options.get("betaHeaders") and on("beta-headers"):
            headers["anthropic-beta"] = ",".join(options["betaHeaders"])
    elif provider == "gemini":
        name = quote(options["model"], safe="/")
        whole = "/" in name and on("addresses-are-folders")
        url = _joined(options["baseUrl"], f"{'' if whole else 'models/'}{name}:generateContent", on)
        if on("gemini-key-in-header"):
            headers["x-goog-api-key"] = key
        else:
            query |= dict(parse_qsl(f"key={key}", keep_blank_values=True))  # as it is
    else:
        url = _joined(options["baseUrl"], "chat/completions", on)
        headers |= _bearer(provider, key, on)
    return {
        "run": run,
        "method": "POST",
        "path": urlsplit(url).path,
        "query": query,
        "headers": headers,
        "headerNames": sorted(headers),
        "body": body,
    }


def _joined(base: str, path: str, on: Switches) -> str:
    """The address as `@inngest/ai` makes it: ``new URL(path, base + "/")`` drops a query."""
    root = base if base.endswith("/") else f"{base}/"
    theirs = f"{root}{path}" if not urlsplit(base).query else urljoin(root, f"./{path}")
    return _address(base, theirs, path, on)


def _address(base: str, theirs: str, path: str, on: Switches) -> str:
    ours = f"{base.rstrip('/')}/{path}"
    plain = not urlsplit(base).query and theirs != ours
    return ours if plain and on("addresses-are-folders") else theirs


_IN_URL = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


def check_model(model: dict[str, Json], on: Switches) -> None:
    """Refuse what can be no address or key.

    Raises:
        Failure: We refuse it; `@inngest/ai` drops a query, encodes any name and sends any key.
    """
    key = model["options"].get("apiKey")
    if key is not None and not re.fullmatch(r"[\x21-\x7e]+", key) and on("keys-are-checked"):
        raise our_failure("ConfigurationError")
    base = urlsplit(model["options"].get("baseUrl") or "")
    bad = bool(base.query or base.fragment)
    if model["provider"] == "gemini":
        bad = bad or _IN_URL.fullmatch(model["options"]["model"]) is None
    if bad and on("addresses-are-checked"):
        raise our_failure("ConfigurationError")


_FORMATS = {"anthropic": "anthropic", "gemini": "gemini"}
_THEIR_FORMATS = {**_FORMATS, "azure-openai": "azure-openai", "grok": "grok"}


def bare(model: dict[str, Json]) -> dict[str, Json]:
    """The model as a step's body has it: `@inngest/ai` adds parameters in ``onCall``, later."""
    options = dict(model["options"])
    given: dict[str, Json] = options.pop("defaultParameters", None) or {}
    if model["provider"] == "anthropic":  # anthropic.ts `requestParser` reads this one
        options["defaultParameters"] = {k: v for k, v in given.items() if k == "max_tokens"}
    return {**model, "options": options}


def step_record(
    run: int, model: dict[str, Json], name: str, body: Json, plain: Json, on: Switches
) -> dict[str, Json]:
    """The step in which Inngest's server is asked for an inference."""
    provider = model["provider"]
    ours = {"modelFormat": _FORMATS.get(provider, "openai-chat"), "body": body}
    if provider not in _FORMATS:
        plain = {key: value for key, value in plain.items() if key != "model"}
    theirs = {"modelFormat": _THEIR_FORMATS.get(provider, "openai-chat"), "body": plain}
    facts = ours if ours == theirs or on("inference-steps-are-complete") else theirs
    return {"run": run, "op": "ai.infer", "id": name, **facts}


def _bearer(provider: str, key: Json, on: Switches) -> dict[str, str]:
    if provider == "grok":
        return {"authorization": f"Bearer {key}"} if key and on("grok-authorization") else {}
    if key:
        return {"authorization": f"Bearer {key}"}
    return {} if on("no-empty-authorization") else {"authorization": "Bearer"}
