"""What providers' libraries raise, as the runtime's few kinds of model errors."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from pydantic_ai import exceptions as wire

from runtime.errors import (
    ContextTooLong,
    ModelAuthentication,
    ModelError,
    ModelRateLimited,
    ModelRefused,
    ModelUnavailable,
)

_DETAIL_CHARACTERS = 300
# Codes and phrases by which servers say that the conversation does not fit, gathered from OpenAI, Azure, Anthropic,
# Google, Mistral, vLLM, llama.cpp and Ollama; compatible servers often send them under a plain 400.
_TOO_LONG = re.compile(
    r"context_length_exceeded|context length|context window|context size|context_window"
    r"|prompt is too long|maximum number of tokens|too many tokens|input token count|exceeds? the maximum .{0,20}tokens"
    r"|request_too_large|string_above_max_length|exceed_context_size_error",
    re.IGNORECASE,
)


@contextmanager
def provider_errors(name: str) -> Generator[None]:
    """Raises a ModelError for whatever the library raises inside; `name` is the model's, for people."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # a library may raise anything, and the runtime knows how to treat only a ModelError
        raise model_error(name, error) from error


def model_error(name: str, error: Exception) -> ModelError:
    """The kind of an error, in a sentence that names the model and holds no key."""
    match error:
        case wire.ModelContextWindowExceededError():
            return ContextTooLong(f"the conversation does not fit the model {name}")
        case wire.ModelAuthenticationError():
            return ModelAuthentication(f"the provider of {name} does not accept the key{_status(error)}")
        case wire.ModelQuotaExceededError():
            return ModelRefused(f"the account's quota for {name} is used up{_detail(error)}")
        case wire.ModelRateLimitError():
            return ModelRateLimited(f"the provider of {name} asks for patience", retry_after=error.retry_after)
        case wire.ModelTimeoutError() | wire.ModelRequestTimeout():
            return ModelUnavailable(f"the model {name} did not answer in time")
        case wire.ModelConnectionError():
            return ModelUnavailable(f"the connection to {name} failed{_phase(error)}", retry_after=error.retry_after)
        case wire.ModelRequestRejectedError():
            return _rejected(name, error)
        case wire.ModelHTTPError() if error.status_code in (408, 409, 425) or error.status_code >= 500:
            return ModelUnavailable(f"the provider of {name} failed{_status(error)}", retry_after=error.retry_after)
        case wire.ModelHTTPError():
            return _rejected(name, error)
        case wire.ModelAPIError():
            return _in_stream(name, error)
        case wire.ContentFilterError():
            return ModelRefused(f"the provider of {name} filtered the request or the answer")
        case wire.UnexpectedModelBehavior():
            return ModelUnavailable(f"the model {name} answered in a way that cannot be read")
        case OSError():
            return ModelUnavailable(f"the connection to {name} failed")
        case _:
            return ModelRefused(f"the request to {name} could not be made ({type(error).__name__})")


def _rejected(name: str, error: wire.ModelAPIError) -> ModelError:
    if _is_too_long(error):
        return ContextTooLong(f"the conversation does not fit the model {name}")
    return ModelRefused(f"the provider of {name} refuses the request{_status(error)}{_detail(error)}")


def _in_stream(name: str, error: wire.ModelAPIError) -> ModelError:
    if _is_too_long(error):
        return ContextTooLong(f"the conversation does not fit the model {name}")
    return ModelUnavailable(f"the answer of {name} broke off", retry_after=error.retry_after)


def _is_too_long(error: wire.ModelAPIError) -> bool:
    return bool(_TOO_LONG.search(f"{error.provider_error_code} {_field(error, 'type')} {_message(error)}"))


def _status(error: wire.ModelAPIError) -> str:
    return f" (HTTP {error.status_code})" if isinstance(error, wire.ModelHTTPError) else ""


def _phase(error: wire.ModelConnectionError) -> str:
    return f" (on {error.phase})" if error.phase in ("connect", "read", "write") else ""


def _message(error: wire.ModelAPIError) -> str:
    body = error.body
    return body[:2000] if isinstance(body, str) else _field(error, "message")


def _field(error: wire.ModelAPIError, name: str) -> str:
    """A text of the error's body, whether the body is the error or holds it."""
    body = error.body
    if not isinstance(body, Mapping):
        return ""
    inner = cast("Mapping[str, Any]", body)
    nested = inner.get("error", inner)
    found = cast("Mapping[str, Any]", nested).get(name) if isinstance(nested, Mapping) else nested
    return found[:2000] if isinstance(found, str) else ""


def _detail(error: wire.ModelAPIError) -> str:
    """The provider's own words, on one line; what looks like a key is left out."""
    words = " ".join(_message(error)[:_DETAIL_CHARACTERS].split())
    words = re.sub(r"\S*\d\S{15,}|\b(?:sk|key|gsk|xai)-\S+", "[…]", words)
    return f": {words}" if words else ""
