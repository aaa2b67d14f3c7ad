"""Models in clouds that want signed requests: Claude on AWS Bedrock, Gemini on Google Vertex.

Requests are signed by the clouds' own SDKs (extras ``bedrock`` and ``vertex``), which also find the
credentials: environment, profiles, instance metadata. Replies of Bedrock come whole: its streams
are in a binary format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from anyio import to_thread
from typing_extensions import Unpack

from agentkit_py.errors import ConfigurationError, MissingDependencyError
from agentkit_py.models.anthropic import AnthropicAdapter
from agentkit_py.models.base import (
    Model,
    ModelOptions,
    ModelRequest,
    copy_model,
    make_model,
    with_settings,
)
from agentkit_py.models.capabilities import ANTHROPIC, GEMINI
from agentkit_py.models.gemini import GeminiAdapter

if TYPE_CHECKING:
    from agentkit_py.models.settings import AnthropicSettings, GeminiSettings

_BEDROCK = replace(
    ANTHROPIC, provider="bedrock", base_url="", key_variable="", key_header="", headers={}
)
_VERTEX = replace(GEMINI, provider="vertex", base_url="", key_variable="")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def bedrock(
    model: str,
    *,
    region: str,
    profile: str | None = None,
    credentials: Any = None,
    settings: AnthropicSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a Claude model on AWS Bedrock, asked by its InvokeModel API.

    Args:
        model: Bedrock's id of the model or profile, e.g. ``"us.anthropic.claude-sonnet-4-5-v1:0"``.
        region: The AWS region, e.g. ``"us-east-1"``.
        profile: A profile of the AWS configuration; None: the default one.
        credentials: botocore's credentials; None: those that it finds.
        settings: Settings under Anthropic's names, checked here.
        options: See `ModelOptions`; there is no API key.

    Raises:
        ConfigurationError: A value cannot work.
        MissingDependencyError: The extra ``bedrock`` is not installed.
    """
    base_url = f"https://bedrock-runtime.{_checked('region', region)}.amazonaws.com"
    options = with_settings("anthropic", settings, options)
    signer = AwsSigner(region, profile=profile, credentials=credentials)
    made = make_model(
        BedrockAdapter(_BEDROCK), model, base_url=base_url, key_required=False, **options
    )
    return copy_model(made, signer=signer)


def vertex(
    model: str,
    *,
    project: str,
    location: str = "global",
    credentials: Any = None,
    settings: GeminiSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a Gemini model on Google Vertex.

    Args:
        model: The model's name, e.g. ``"gemini-2.5-flash"``.
        project: The Google Cloud project.
        location: The region, or ``"global"``.
        credentials: google-auth's credentials; None: the application's default ones.
        settings: Settings under Google's names, checked here.
        options: See `ModelOptions`; there is no API key.

    Raises:
        ConfigurationError: A value cannot work.
        MissingDependencyError: The extra ``vertex`` is not installed.
    """
    where = _checked("location", location)
    host = "" if where == "global" else f"{where}-"
    path = f"projects/{_checked('project', project)}/locations/{where}/publishers/google"
    made = make_model(
        GeminiAdapter(_VERTEX),
        model,
        base_url=f"https://{host}aiplatform.googleapis.com/v1/{path}",
        key_required=False,
        **with_settings("gemini", settings, options),
    )
    return copy_model(made, signer=GoogleSigner(credentials))


@dataclass(frozen=True, slots=True)
class BedrockAdapter(AnthropicAdapter):
    """The Messages API as InvokeModel takes it: the model stands in the URL."""

    def url(self, model: Model) -> str:
        """Return the request's URL."""
        return f"{model.base_url}/model/{quote(model.model, safe='')}/invoke"

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body."""
        body = AnthropicAdapter.encode(self, model, request)
        del body["model"]
        betas = {"anthropic_beta": list(self.beta_headers)} if self.beta_headers else {}
        return {"anthropic_version": "bedrock-2023-05-31", **betas, **body}

    def assembler(self, model: Model) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as `Adapter` allows
        """Return None: replies are not streamed."""
        return


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
        """Return the headers with date, token and signature."""
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
                "No AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, configure a "
                "profile, or pass credentials=…"
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
