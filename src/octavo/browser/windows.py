"""What all windows see: things by name, looked at once for all, and told to each window where they have changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from octavo import __version__
from octavo.browser.runs import Followed
from octavo.browser.studies import FollowedStudy
from octavo.browser.work import Found, Work
from octavo.serving.errors import Refusal
from octavo.serving.models import Models, Place
from octavo.util.records import json_text

GONE = "There is no such run any more."
TICK = 1.0
"""Seconds between two looks."""
PATIENCE = 20
"""Times as long as looking for folders took is waited until the next look for them."""


@dataclass(frozen=True)
class About:
    """What the page says of itself. `runs`, `exports`: where new ones go, as a command would name it."""

    folder: str
    runs: str
    exports: str
    version: str
    empty: bool
    cut: bool


class Source(Protocol):
    """Something else that the page lists."""

    def cards(self) -> Iterable[tuple[str, Any]]:
        """Each by its name, such as job:3."""
        ...


class Windows:
    """The state of the page. Looks are in a thread; all else is used from one event loop.

    Attributes:
        runs, studies: what is followed, by id.
    """

    def __init__(self, work: Work, models: Models, sources: Iterable[Source] = ()) -> None:
        self.work, self.models, self.sources = work, models, tuple(sources)
        self.runs: dict[str, Followed] = {}
        self.studies: dict[str, FollowedStudy] = {}
        self.state: dict[str, str] = {}
        self._found, self._next_walk = Found(), 0.0
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._looked = -1e9
        self.open = 0

    async def look(self, *, within: float = 0.0) -> None:
        """Look at everything, unless that was done within so many seconds. A look is for all who wait for it, and goes
        on when one of them leaves."""
        if self._looking is None or self._looking.done():
            if time.monotonic() - self._looked < within:
                return
            self._looking = asyncio.create_task(self._look_once())
        await asyncio.shield(self._looking)

    async def _look_once(self) -> None:
        new = await asyncio.to_thread(self._look)
        self._looked = time.monotonic()
        self.models.places.clear()
        self.models.places.update(
            {id: Place(id, one.path) for id, one in self.runs.items() if one.card.checkpoints}
        )
        if new != self.state:
            self.state = new
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def run(self, id: str) -> Followed:
        """A run by its name. Raises Refusal."""
        if (found := self.runs.get(id)) is None:
            await self.look(within=TICK)
            found = self.runs.get(id)
        if found is None:
            raise Refusal(404, GONE, param="run")
        return found

    def soon(self) -> None:
        """Look for new folders at the next look."""
        self._next_walk = 0.0
        self._looked = -1e9

    async def changes(self) -> AsyncGenerator[dict[str, str | None], None]:
        """What a window has to be told: at first everything, then what has changed; None for what is gone. Nothing
        comes as an empty one now and then."""
        known: dict[str, str] = {}
        self.open += 1
        try:
            while True:
                await self.look(within=TICK * 0.9)
                state = self.state
                news: dict[str, str | None] = {
                    name: told for name, told in state.items() if known.get(name) != told
                }
                news |= dict.fromkeys(known.keys() - state.keys())
                known = state
                yield news
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK):
                        await self._changed.wait()
        finally:
            self.open -= 1

    def _look(self) -> dict[str, str]:
        """All cards as JSON. One that cannot be made hides no other."""
        self._walk()
        found: dict[str, Any] = {
            "about": About(
                folder=str(self.work.folder.resolve()),
                runs=str(self.work.runs),
                exports=str(self.work.exports),
                version=__version__,
                empty=not self.runs,
                cut=self._found.cut,
            )
        }
        for id, study in self.studies.items():
            found[f"study:{id}"] = study.look()
        for id, run in self.runs.items():
            found[f"run:{id}"] = run.look()
        for source in self.sources:
            found.update(source.cards())
        return {name: json_text(card, ensure_ascii=False) for name, card in found.items()}

    def _walk(self) -> None:
        """Follow what is new, and forget what is gone."""
        now = time.monotonic()
        gone = [one for one in (*self.runs.values(), *self.studies.values()) if not one.path.is_dir()]
        if now < self._next_walk and not gone:
            return
        self._found = self.work.look()
        self._next_walk = now + PATIENCE * (time.monotonic() - now)
        self.studies = {
            id: known
            if (known := self.studies.get(id)) is not None and known.path == path
            else FollowedStudy(id, path, str(path))
            for id, path in self._found.studies.items()
        }
        for study in self.studies.values():
            study.look()
        planned: dict[Path, tuple[str, str, int]] = {
            path: (id, *place) for id, study in self.studies.items() for path, place in study.runs.items()
        }
        self.runs = {
            id: known
            if (known := self.runs.get(id)) is not None and known.path == path
            else Followed(id, path, str(path), planned.get(path))
            for id, path in self._found.runs.items()
        }
