"""What a request is refused with: a status, and an `error` object as OpenAI's clients read it.

Sentences are fixed, or say what the request itself holds. No path, address, traceback or key is ever in one.
"""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """A request that is not answered.

    Args:
        status: of HTTP.
        message: what is wrong, the limit, what to do.
        param: the field that is meant.
        headers: that go with it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status, self.message, self.param = status, message, param
        self.code = code or CODES.get(status)
        self.headers = headers or {}
        super().__init__(message)

    def body(self) -> dict[str, Any]:
        """As JSON."""
        kind = KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code},
        }


KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
CODES = {
    400: "invalid_value",
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    411: "length_required",
    413: "request_too_large",
    415: "unsupported_media_type",
    429: "queue_full",
    431: "headers_too_large",
    500: "internal_error",
    503: "unavailable",
    504: "deadline_exceeded",
}


def wrong(message: str, param: str | None = None, *, code: str | None = None) -> Refusal:
    """A field that cannot be used."""
    return Refusal(400, message, param=param, code=code)


INTERNAL = "The server failed; its log says how. Other requests are not affected."
