"""Many records, one wait for the disk: what arrives while a transaction is under way goes into the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from octavo.synthesis.writing.calls import Batch
from octavo.synthesis.writing.store import Store


class Journal:
    """Hands actions to the store in groups; an action's answer comes when its group is on the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._flushing: asyncio.Task[None] | None = None

    async def do(self, action: Callable[[], Any]) -> Any:
        """Run an action on the store; returns its result once that is durable. Raises StorageError."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((action, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return await future

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                results = await loop.run_in_executor(self._thread, self._store.apply, [a for a, _ in group])
            except Exception as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(group, results, strict=True):
                if not future.done():
                    future.set_result(result)
        self._flushing = None

    async def close(self) -> None:
        """Wait for what is under way."""
        if self._flushing is not None:
            await self._flushing
        self._thread.shutdown()


class BatchMemory:
    """A writer's batches in the store."""

    def __init__(self, journal: Journal, store: Store, writer: str) -> None:
        self._journal, self._store, self._writer = journal, store, writer

    async def asked(self, batch: Batch) -> None:
        """From now on the server may have it."""
        await self._journal.do(lambda: self._store.asked(batch))

    async def known(self, batch: Batch) -> None:
        """The server has it, under this name."""
        await self._journal.do(lambda: self._store.known(batch))

    async def stay_away(self, seconds: float) -> None:
        """The server asked for rest."""
        until = time.time() + seconds
        await self._journal.do(lambda: self._store.gate(self._writer, until, seconds))
