"""What a fake server says: answers in one piece or in many, whole or torn."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from email.utils import formatdate
from typing import Any


def whole(text: str, finish: str, usage: dict[str, Any]) -> dict[str, Any]:
    """A chat completion in one piece."""
    message = {"role": "assistant", "content": text}
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage,
    }


def answer(
    writer: asyncio.StreamWriter, status: int, data: dict[str, Any], *, zipped: bool = False, **headers: str
) -> None:
    """Answer with JSON."""
    body = json.dumps(data).encode()
    if zipped:
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    send(writer, status, body, "application/json", headers=headers)


def send(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    kind: str,
    *,
    keep: int | None = None,
    headers: dict[str, str] | None = None,
) -> None:
    """Answer with bytes; `keep`: only so many of them."""
    lines = [
        f"HTTP/1.1 {status} X",
        f"Date: {formatdate(usegmt=True)}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
    ]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body[:keep])


def stream(
    writer: asyncio.StreamWriter,
    text: str,
    finish: str,
    usage: dict[str, Any],
    *,
    cut: bool,
    draw: random.Random,
) -> bool:
    """Server-sent events; a cut one ends within an event, between two, before the reason, or before [DONE]."""
    words = text.split(" ")
    deltas = [
        " ".join(words[i : i + 8]) + (" " if i + 8 < len(words) else "") for i in range(0, len(words), 8)
    ]
    events = [
        {"choices": [{"index": 0, "delta": {"content": delta}, "finish_reason": None}]} for delta in deltas
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events.append({"choices": [], "usage": usage})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    if cut:
        body = draw.choice(
            [body[: len(body) // 2], body, body[: body.rfind('data: {"choices": [{"index": 0, "delta": {}')]]
        )
    else:
        body += "data: [DONE]\n\n"
    tidy = not cut or draw.random() < 0.5  # a proxy may end a cut stream tidily
    chunk = f"{len(body.encode()):x}\r\n{body}\r\n" + ("0\r\n\r\n" if tidy else "")
    head = f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\nContent-Type: text/event-stream\r\n"
    writer.write((head + "Transfer-Encoding: chunked\r\n\r\n" + chunk).encode())
    return tidy
