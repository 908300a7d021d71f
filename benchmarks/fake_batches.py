"""The batch endpoint of the fake server: files, batches that take a while, answers and errors as files of lines.

The faults of the server hold for the lines of a batch: 429 and 500 are error lines, timeout is one that says that the
batch expired, cut is a line that is missing although it is billed. Faults of the calls themselves are a script: what
happens to the next ones (500, 429, forget: done, but the connection ends without a word; or nothing).
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from fake_http import answer, send, whole

SHARE = 0.5  # of the full price


class Server(Protocol):
    """What batches need of their server: see `fake_endpoint.FakeEndpoint`."""

    seconds: float
    seed: int
    calls: list[dict[str, Any]]
    story: Callable[[int, str], str]

    def fault(self, share: float) -> str: ...

    def bill(self, request: dict[str, Any], text: str, share: float = ...) -> dict[str, Any]: ...


class FakeBatches:
    """Files and batches of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.files: dict[str, bytes] = {}
        self.made: dict[str, dict[str, Any]] = {}
        self.script: list[str] = []
        self.status = "completed"  # how batches end
        self.page = 2  # batches in an answer that lists them

    def one(self, ask: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one call; whether the connection stays open."""
        fault = self.script.pop(0) if self.script else ""
        if fault in ("429", "500"):
            more = {"Retry-After": "0.2"} if fault == "429" else {}
            answer(writer, int(fault), {"error": {"message": "not now"}}, **more)
            return True
        place = urlsplit(ask.partition(" ")[2])
        parts = place.path.split("/")[2:]
        if ask == "POST /v1/files":
            said: dict[str, Any] | bytes | None = self._upload(headers, body)
        elif ask == "POST /v1/batches":
            said = self._make(json.loads(body))
        elif len(parts) == 3 and parts[2] == "content":
            said = self.files.get(parts[1])
        elif parts == ["batches"]:
            said = self._list(parse_qs(place.query).get("after", [""])[0])
        else:
            said = self._state(parts[1]) if len(parts) == 2 and parts[1] in self.made else None
        if fault == "forget":
            return False
        if said is None:
            answer(writer, 404, {"error": {"message": "There is nothing here."}})
        elif isinstance(said, bytes):
            send(writer, 200, said, "application/octet-stream")
        else:
            answer(writer, 200, said)
        return True

    def _upload(self, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        mark = b"--" + headers["content-type"].partition("boundary=")[2].encode()
        parts = [part for part in body.split(mark) if b"filename=" in part]
        return {"id": self._file(parts[0].partition(b"\r\n\r\n")[2].removesuffix(b"\r\n"))}

    def _file(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def _make(self, request: dict[str, Any]) -> dict[str, Any]:
        name = f"batch-{len(self.made)}"
        lines = [json.loads(line) for line in self.files[request["input_file_id"]].splitlines()]
        self.made[name] = {
            "metadata": request["metadata"],
            "until": time.time() + self.server.seconds,
            "ids": [line["custom_id"] for line in lines],
            "lines": lines,
        }
        return self._state(name)

    def _list(self, after: str) -> dict[str, Any]:
        names = list(reversed(self.made))
        names = names[names.index(after) + 1 :] if after else names
        shown = [self._state(name) for name in names[: self.page]]
        return {"object": "list", "data": shown, "has_more": len(names) > self.page}

    def _state(self, name: str) -> dict[str, Any]:
        batch = self.made[name]
        state = {"id": name, "object": "batch", "metadata": batch["metadata"]}
        if time.time() < batch["until"]:
            return {**state, "status": "in_progress", "request_counts": {"completed": 0}}
        if self.status == "failed":
            return {**state, "status": "failed", "errors": {"data": [{"message": "no such model"}]}}
        if "output" not in batch:
            rows = [self._line(line) for line in batch["lines"]]
            for kind in ("output", "error"):
                text = "".join(json.dumps(row) + "\n" for row, where in rows if where == kind)
                batch[kind] = self._file(text.encode()) if text else None
        return {
            **state,
            "status": self.status,
            "output_file_id": batch["output"],
            "error_file_id": batch["error"],
        }

    def _line(self, line: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """What becomes of one request, and the file in which it is told."""
        server, request = self.server, line["body"]
        number = len(server.calls)
        draw = random.Random(f"{server.seed}/{number}")
        fault = server.fault(draw.random())
        text = server.story(number, json.dumps(request["messages"]))
        call = {"number": number, "fault": fault, "at": time.time(), "id": line["custom_id"]}
        server.calls.append({**call, "request": request, "text": text})
        row = {"custom_id": line["custom_id"], "response": None, "error": None}
        if fault == "timeout":
            return {**row, "error": {"code": "batch_expired", "message": "too late"}}, "error"
        if fault in ("429", "500"):
            return {
                **row,
                "response": {"status_code": int(fault), "body": {"error": {"message": "no"}}},
            }, "error"
        usage = server.bill(request, text, SHARE)
        if fault == "bad_story":
            text = f"here be zeppelin! {text}"
        body: Any = whole("" if fault == "empty" else text, "length" if fault == "length" else "stop", usage)
        body = {"html": "<html>", "wrong_json": {"choices": []}}.get(fault, body)
        return {
            **row,
            "response": {"status_code": 200, "body": body},
        }, "nowhere" if fault == "cut" else "output"
