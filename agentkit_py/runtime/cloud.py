"""Models in clouds: Claude on AWS Bedrock, Claude and Gemini on Google Vertex.

Requests are signed by the clouds' own SDKs (extras ``bedrock`` and ``vertex``), which also find the
credentials: environment, profiles, instance metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread
from typing_extensions import Unpack

from agentkit_py.errors import ConfigurationError, MissingDependencyError
from agentkit_py.models.anthropic import checked_betas, make_claude
from agentkit_py.models.base import Model, ModelOptions, copy_model, make_model
from agentkit_py.models.capabilities import GEMINI
from agentkit_py.models.clouds import BEDROCK, VERTEX_CLAUDE, BedrockAdapter, VertexClaudeAdapter
from agentkit_py.models.encoding import with_settings
from agentkit_py.models.gemini import GeminiAdapter

if TYPE_CHECKING:
    from agentkit_py.models.settings import AnthropicSettings, GeminiSettings

_VERTEX = replace(GEMINI, provider="vertex", base_url="", key_variable="")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def bedrock(
    model: str,
    *,
    region: str,
    profile: str | None = None,
    credentials: Any = None,
    beta_headers: Sequence[str] | None = None,
    settings: AnthropicSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a Claude model on AWS Bedrock, asked by its InvokeModel API.

    Args:
        model: Bedrock's id of the model or profile, e.g. ``"us.anthropic.claude-sonnet-4-5-v1:0"``.
        region: The AWS region, e.g. ``"us-east-1"``.
        profile: A profile of the AWS configuration; None: the default profile.
        credentials: botocore's credentials; None: those that it finds.
        beta_headers: Betas to take part in, sent as ``anthropic_beta``.
        settings: Settings under Anthropic's names, checked here.
        options: See `ModelOptions`. ``api_key`` is a Bedrock API key, sent instead of a signature;
            its environment variable is ``AWS_BEARER_TOKEN_BEDROCK``, which counts where neither
            ``profile`` nor ``credentials`` is given.

    Raises:
        ConfigurationError: A value cannot work.
        MissingDependencyError: The extra ``bedrock`` is not installed.
    """
    base_url = f"https://bedrock-runtime.{_checked('region', region)}.amazonaws.com"
    _check_claude(model, base_url)
    signs = profile is not None or credentials is not None
    if signs and options.get("api_key") is not None:
        raise ConfigurationError("bedrock(): pass api_key=…, or a profile or credentials.")
    host = replace(BEDROCK, key_variable="") if signs else BEDROCK
    adapter = BedrockAdapter(host, beta_headers=checked_betas(beta_headers))
    signer = AwsSigner(region, profile=profile, credentials=credentials)
    made = make_claude(adapter, model, base_url, settings, options, key_required=False)
    return copy_model(made, signer=signer)


_OTHERS = re.compile(
    r"(?:^|[./])(?:ai21|amazon|cohere|deepseek|google|luma|meta|minimax|mistral|moonshotai?|nvidia"
    r"|openai|qwen|stability|twelvelabs|writer|zai)\."
)


def _check_claude(model: object, base_url: str) -> None:
    """Refuse models that Bedrock offers under bodies of their own, or under Converse."""
    if isinstance(model, str) and _OTHERS.search(model):
        raise ConfigurationError(
            f"bedrock(model={model!r}): only Claude is asked here (InvokeModel); agentkit_py does "
            "not speak Bedrock's Converse. A model with chat completions at Bedrock: "
            f"compatible(…, base_url='{base_url}/openai/v1', api_key=…). Others: a gateway that "
            "speaks chat completions, or function_model around boto3's converse."
        )


def vertex(
    model: str,
    *,
    project: str,
    location: str = "global",
    credentials: Any = None,
    beta_headers: Sequence[str] | None = None,
    settings: GeminiSettings | AnthropicSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a Gemini or Claude model on Google Vertex.

    Args:
        model: The model's name, e.g. ``"gemini-2.5-flash"`` or ``"claude-sonnet-4-5@20250929"``.
        project: The Google Cloud project.
        location: The region, ``"global"``, or ``"us"`` or ``"eu"`` for all of its regions.
        credentials: google-auth's credentials; None: the application's default ones.
        beta_headers: Claude: betas to take part in, sent as ``anthropic-beta``.
        settings: Settings under the names of the model's maker, checked here.
        options: See `ModelOptions`; there is no API key.

    Raises:
        ConfigurationError: A value cannot work.
        MissingDependencyError: The extra ``vertex`` is not installed.
    """
    is_claude = isinstance(model, str) and model.startswith("claude")
    where = _checked("location", location)
    path = f"projects/{_checked('project', project)}/locations/{where}"
    maker = "anthropic" if is_claude else "google"
    base_url = f"https://{_vertex_host(where)}/v1/{path}/publishers/{maker}"
    betas = checked_betas(beta_headers)
    if options.get("api_key") is not None:
        raise ConfigurationError("vertex() takes no api_key: pass credentials=… of google-auth.")
    if is_claude:
        given = cast("AnthropicSettings | None", settings)  # checked there
        claude = VertexClaudeAdapter(VERTEX_CLAUDE, beta_headers=betas)
        made = make_claude(claude, model, base_url, given, options, key_required=False)
    elif betas:
        raise ConfigurationError(f"vertex({model!r}): beta_headers are for Claude.")
    else:
        options = with_settings("gemini", settings, options)
        adapter = GeminiAdapter(_VERTEX)
        made = make_model(adapter, model, base_url=base_url, key_required=False, **options)
    return copy_model(made, signer=GoogleSigner(credentials))


def _vertex_host(location: str) -> str:
    """Return the host of a location, as Google's and Anthropic's own SDKs choose it."""
    if location in ("us", "eu"):
        return f"aiplatform.{location}.rep.googleapis.com"
    return f"{'' if location == 'global' else f'{location}-'}aiplatform.googleapis.com"


class AwsSigner:
    """Signs requests with AWS Signature Version 4, as botocore does."""

    def __init__(
        self,
        region: str,
        *,
        service: str = "bedrock",
        profile: str | None = None,
        credentials: Any = None,
    ) -> None:
        """Look for botocore; credentials are looked for when the first request is sent.

        Raises:
            MissingDependencyError: It is not installed.
        """
        try:
            auth = import_module("botocore.auth")
            requests = import_module("botocore.awsrequest")
        except ImportError as error:
            raise MissingDependencyError("botocore", "bedrock", "Bedrock") from error
        self._auth: Any = auth.SigV4Auth
        self._request: Any = requests.AWSRequest
        self._region, self._service, self._profile = region, service, profile
        self._credentials: Any = credentials

    async def headers(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, /
    ) -> Mapping[str, str]:
        """Return the headers with date, token and signature; as they are if they hold a key."""
        if "authorization" in headers:
            return headers
        return await to_thread.run_sync(self._signed, method, url, dict(headers), content)

    def _signed(
        self, method: str, url: str, headers: dict[str, str], content: bytes
    ) -> dict[str, str]:
        # Those that a proxy may change are not signed, as in botocore's own client.
        kept = {"accept", "accept-encoding", "user-agent"}
        signed = {name: value for name, value in headers.items() if name.lower() not in kept}
        request = self._request(method=method, url=url, data=content, headers=signed)
        frozen = self._found().get_frozen_credentials()
        self._auth(frozen, self._service, self._region).add_auth(request)
        return {**headers, **{str(k): str(v) for k, v in request.headers.items()}}

    def _found(self) -> Any:
        if self._credentials is None:
            session = import_module("botocore.session").Session(profile=self._profile)
            self._credentials = session.get_credentials()
        if self._credentials is None:
            raise ConfigurationError(
                "No AWS credentials: set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, configure a profile, or pass credentials=… or api_key=…"
            )
        return self._credentials


class GoogleSigner:
    """Puts Google's access token into requests, as google-auth does, and renews it in time."""

    def __init__(self, credentials: Any = None) -> None:
        """Look for google-auth; credentials are looked for when the first request is sent.

        Raises:
            MissingDependencyError: It is not installed.
        """
        try:
            auth = import_module("google.auth")
            transport = import_module("google.auth.transport.requests")
        except ImportError as error:
            raise MissingDependencyError("google-auth", "vertex", "Vertex") from error
        self._auth: Any = auth
        self._transport: Any = transport.Request
        self._credentials: Any = credentials

    async def headers(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, /
    ) -> Mapping[str, str]:
        """Return the headers with the token."""
        del content
        return await to_thread.run_sync(self._signed, method, url, dict(headers))

    def _signed(self, method: str, url: str, headers: dict[str, str]) -> dict[str, str]:
        if self._credentials is None:
            try:
                self._credentials = self._auth.default(scopes=[_SCOPE])[0]
            except self._auth.exceptions.DefaultCredentialsError as error:
                raise ConfigurationError(
                    "No Google credentials: run `gcloud auth application-default login`, set "
                    "GOOGLE_APPLICATION_CREDENTIALS, or pass credentials=…"
                ) from error
        self._credentials.before_request(self._transport(), method, url, headers)
        return headers


def _checked(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.replace("-", "").isalnum() or not value.isascii():
        raise ConfigurationError(f"{name}={value!r}: pass letters, digits and dashes only.")
    return value
