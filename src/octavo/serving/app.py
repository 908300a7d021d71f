"""The server as one ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from octavo.serving.call import Call, Endpoint
from octavo.serving.errors import Refusal
from octavo.serving.guard import Guard, refuse
from octavo.serving.llama_server import LlamaServer
from octavo.serving.openapi import PATHS
from octavo.serving.others import Others
from octavo.serving.service import Service
from octavo.serving.status import Status
from octavo.serving.texts import Texts
from octavo.serving.tokens import Tokens


def application(
    service: Service, *, hosts: Iterable[str] = (), addresses: bool = False, key: str | None = None
) -> ASGIApp:
    """All endpoints behind the guard; see `Guard`."""
    return Guard(
        Paths(Router(routes(service), redirect_slashes=False)), hosts=hosts, addresses=addresses, key=key
    )


def routes(service: Service) -> list[Route]:
    """Where requests go."""
    texts, tokens, others, about = Texts(service), Tokens(service), Others(service), Status(service)
    llama = LlamaServer(service)
    functions: dict[str, Callable[[Call], Awaitable[None]]] = {
        "/v1/completions": texts.completions,
        "/v1/chat/completions": texts.chat,
        "/v1/chat/completions/input_tokens": llama.input_tokens,
        "/v1/translate": others.translate,
        "/v1/forecast": others.forecast,
        "/tokenize": tokens.tokenize,
        "/detokenize": tokens.detokenize,
        "/tokenizer_info": tokens.info,
        "/completion": llama.completion,
        "/apply-template": llama.apply_template,
        "/props": llama.props,
        "/slots": llama.slots,
        "/v1/models": about.models,
        "/v1/models/{name:path}": about.model,
        "/health": about.health,
        "/metrics": about.metrics,
        "/openapi.json": about.openapi,
    }
    return [
        Route(name, Endpoint(path, functions[path], service.done), methods=[told.method])
        for path, told in PATHS.items()
        for name in (
            path.removeprefix("/v1"),
            f"/v1{path.removeprefix('/v1')}",
        )  # clients often take the other
    ]


class Paths:
    """A router whose own errors are error objects, too."""

    def __init__(self, router: Router) -> None:
        self.router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.router({**scope, "app": self}, receive, send)
        except HTTPException as error:
            says = "There is no such path." if error.status_code == 404 else "This path takes another method."
            await refuse(send, Refusal(error.status_code, says, headers=dict(error.headers or {})))
