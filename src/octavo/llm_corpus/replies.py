"""From the bytes of a server to a whole reply, or to nothing: what breaks off or does not fit is never a reply."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from octavo.llm_corpus.calls import CallFailed, Reply
from octavo.llm_corpus.money import Tokens

LARGEST = 4 << 20
"""Bytes of a reply; more is no story."""


def read_json(body: bytes) -> Reply:
    """A reply that came in one piece. Raises CallFailed."""
    return read_answer(read_json_object(body))


def read_answer(data: dict[str, Any]) -> Reply:
    """The reply in an answer's JSON. Raises CallFailed."""
    tokens = read_usage(data.get("usage"))
    choice = _choice(data, tokens)
    message = choice.get("message")
    text = _text(message.get("content")) if isinstance(message, dict) else None
    finish = choice.get("finish_reason")
    if text is None or not isinstance(finish, str):
        raise malformed("The answer holds no message with a reason for its end.", tokens)
    return Reply(text, finish, tokens)


async def read_stream(lines: AsyncIterator[str], most: int = LARGEST) -> Reply:
    """A reply that came in pieces: server-sent events up to `[DONE]`, or to `most` letters, from where on nobody
    listens. Raises CallFailed."""
    pieces: list[str] = []
    size = 0
    finish: str | None = None
    tokens: Tokens | None = None
    async for line in lines:
        if not line.startswith("data:"):
            continue  # a comment, a name, or the empty line between events
        text = line[5:].strip()
        if text == "[DONE]":
            if finish is None:
                raise CallFailed("cut", "The stream ended without a reason.", tokens=tokens, billed=True)
            return Reply("".join(pieces), finish, tokens)
        event = read_json_object(text.encode())
        tokens = read_usage(event.get("usage")) or tokens
        if not event.get("choices"):
            if "error" in event:
                raise malformed("The server broke the stream off with an error.", tokens)
            continue  # the event with the usage
        choice = _choice(event, tokens)
        delta = choice.get("delta")
        content = delta.get("content") if isinstance(delta, dict) else None
        if content is not None:
            piece = _text(content)
            if piece is None:
                raise malformed("A piece of the stream is no text.", tokens)
            pieces.append(piece)
            size += len(piece)
        finish = choice.get("finish_reason") or finish
        if finish is not None and not isinstance(finish, str):
            raise malformed("The stream is not one of a story.", tokens)
        if size > most:
            return Reply("".join(pieces), "length", tokens)
    raise CallFailed("cut", "The stream broke off before its end.", tokens=tokens, billed=True)


async def lines_of(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The lines of a body that comes in pieces. Raises CallFailed for one that never ends."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r").decode(errors="replace")
        if len(rest) > LARGEST:
            raise malformed("A line of the stream is too long for a story.")
    yield rest.decode(errors="replace")


def _text(content: Any) -> str | None:
    """The text of a message: a string, or a list of parts with some text among them. None if there is none."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        found = [text for text in texts if isinstance(text, str)]
        content = "".join(found) if found else None
    if not isinstance(content, str):
        return None
    return content.encode(errors="replace").decode()  # half a character can be neither sent nor stored


def read_usage(usage: Any) -> Tokens | None:
    """The tokens that a server counted; None if it did not, or not in whole numbers."""
    if not isinstance(usage, dict):
        return None
    prompt, reply = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = _count(usage.get("prompt_cache_hit_tokens"))
    if cached is None and isinstance(details, dict):
        cached = _count(details.get("cached_tokens"))
    if prompt is None or reply is None:
        return None
    return Tokens(prompt, cached or 0, reply)


def malformed(what: str, tokens: Tokens | None = None) -> CallFailed:
    """The answer came, and may be billed, but it is none."""
    return CallFailed("malformed", what, tokens=tokens, billed=True)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_json_object(body: bytes) -> dict[str, Any]:
    """A JSON object. Raises CallFailed."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        start = body[:200].lstrip().lower()
        what = (
            "an HTML page"
            if start.startswith((b"<!doctype", b"<html"))
            else "empty"
            if not body
            else "no JSON"
        )
        raise malformed(f"The answer is {what}.") from error
    if not isinstance(data, dict):
        raise malformed("The answer is JSON, but no object.")
    return data


def _choice(data: dict[str, Any], tokens: Tokens | None) -> dict[str, Any]:
    choices = data.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    raise malformed("The answer offers no choice.", tokens)
