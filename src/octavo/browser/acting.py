"""What the page does: takes texts, looks at them, foretells, and starts and stops ordinary commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from octavo.browser.asked import (
    Demo,
    Explain,
    Export,
    Foretell,
    More,
    NewText,
    OfText,
    Start,
    Stop,
    Train,
    Tune,
)
from octavo.browser.commands import Jobs
from octavo.browser.dropped import Texts
from octavo.browser.errands import Errands
from octavo.browser.guard import parameter
from octavo.browser.judgements import Judgements
from octavo.browser.windows import Windows
from octavo.errors import OctavoError, StorageError
from octavo.serving.call import Call
from octavo.serving.errors import Refusal, wrong
from octavo.util.records import parse_json

NO_TEXT = "There is no such text any more; drop it again."
MOST_LOG = 2**18
SHOWN = ("sampling.every=0.1", "training.keep_for_story=12")
"""Settings of a run that is watched: they change nothing of what it learns, and let it write on its way."""
WAITING = 1000.0
"""Seconds that a window waits for what minutes would bring, at most."""


class Acting:
    """The endpoints."""

    def __init__(self, windows: Windows, texts: Texts, jobs: Jobs, judgements: Judgements) -> None:
        self.windows, self.texts, self.jobs, self.judgements = windows, texts, jobs, judgements
        self.errands = Errands()
        self._looked: dict[tuple[Any, ...], Any] = {}

    async def new_text(self, call: Call) -> None:
        """A folder for a text that is about to come."""
        asked = await call.asked(NewText)
        try:
            id = await asyncio.to_thread(self.texts.new, asked.name)
        except OSError:
            raise Refusal(500, "No text can be written into this folder.") from None
        await call.answer({"id": id})

    async def file(self, call: Call) -> None:
        """A file of a text, as it comes."""
        length = call.headers.get("content-length", "")
        size = int(length) if length.isdecimal() and len(length) < 16 else None
        name = parameter(call.scope, "name") or "text"
        written = await self.texts.take(parameter(call.scope, "text"), name, size, call.pieces())
        self.windows.soon()
        await call.answer({"bytes": written})

    async def look(self, call: Call) -> None:
        """What a text holds."""
        path = self._text((await call.asked(OfText)).text)
        async with call.attended(WAITING):
            await call.answer(await self._errand("octavo.browser.look_child", str(path), about=path))

    async def foretell(self, call: Call) -> None:
        """What minutes would bring; a window that does not wait any more ends it."""
        asked = await call.asked(Foretell)
        path = self._text(asked.text)
        minutes = ",".join(f"{each:g}" for each in sorted(set(asked.minutes)))
        words = ("octavo", "plan", "--text", str(path), "--minutes", minutes, "--json")
        async with call.attended(WAITING):
            await call.answer(await self._errand(*words, about=path))

    async def start(self, call: Call) -> None:
        """Start a command: the card of its job."""
        wish = (await call.asked(Start)).root
        kind, words, about = await self._command(wish)
        try:
            card = await asyncio.to_thread(self.jobs.start, kind, words, about)
        except StorageError as error:
            raise Refusal(507, error.what, code="disk_full") from None
        self.windows.soon()
        await call.answer(card)

    async def stop(self, call: Call) -> None:
        """Ask a command to save and end."""
        asked = await call.asked(Stop)
        await asyncio.to_thread(self.jobs.stop, asked.job)
        self.windows.soon()
        await call.answer({})

    async def log(self, call: Call) -> None:
        """What a command said, the end of it."""
        found = await asyncio.to_thread(self.jobs.log, parameter(call.scope, "job"), MOST_LOG)
        await call.content(found, "text/plain; charset=utf-8")

    async def _command(self, wish: Any) -> tuple[str, list[str], Path]:
        """The kind of a command, its words, and the run that it is about. Raises Refusal."""
        work = self.windows.work
        if isinstance(wish, Train):
            path = self._text(wish.text)
            taken = {card.about for _, card in self.jobs.cards() if card.running}
            out = work.free_run(wish.name or Path(wish.text).stem)
            while str(out) in taken:
                out = work.free_run(f"{out.name}-b")
            minutes = f"{wish.minutes:g}"
            words = ["train", "--text", plain(path), "--minutes", minutes, "--out", plain(out), *SHOWN]
            return "train", words, out
        if isinstance(wish, Demo):
            out = work.free_run("stories")
            return "demo", ["demo", "--out", plain(out)], out
        run = await self.windows.run(wish.run)
        name = plain(run.path)
        if run.card.held and isinstance(wish, More):
            raise Refusal(409, "Another process writes this run now; stop it there first, or wait for it.")
        if isinstance(wish, More):
            more = [] if wish.minutes is None else ["--minutes", f"{wish.minutes:g}"]
            return "more", ["train", "--out", name, "--resume", *more], run.path
        if isinstance(wish, Explain):
            out = run.path / "explain.html"
            return "explain", ["explain", name, "--out", plain(out), "--force"], run.path
        if isinstance(wish, Export):
            out = free(work.exports / f"{run.path.name}-{wish.to}")
            alone = ["--network-only"] if wish.network_only else []
            return "export", ["export", name, "--to", wish.to, "--out", plain(out), *alone], run.path
        assert isinstance(wish, Tune)
        pairs = self.judgements.pairs_of(wish.run)
        if not pairs.is_file():
            raise wrong("Nothing was judged of this run yet.", "run")
        out = work.free_run(f"{run.path.name}-preferred")
        return "tune", ["tune", "dpo", name, "--text", plain(pairs), "--out", plain(out)], out

    def _text(self, id: str) -> Path:
        card = self.texts.card(id)
        if card is None or not card.files:
            raise Refusal(404, NO_TEXT, param="text")
        return Path(card.path)

    async def _errand(self, *words: str, about: Path) -> Any:
        """What a command answers, once for each state of a text."""
        card = self.texts.card(about.relative_to(self.texts.folder).parts[0])
        key = (*words, card and (card.files, card.bytes, card.added))
        if key not in self._looked:
            try:
                self._looked[key] = parse_json(await self.errands.run(*words), Any)
            except (ValueError, OctavoError):
                raise Refusal(422, "The command answered something else than expected.") from None
            while len(self._looked) > 200:
                del self._looked[next(iter(self._looked))]
        return self._looked[key]


def plain(path: Path) -> str:
    """A path as a word of a command that is taken for no option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def free(path: Path) -> Path:
    """The path, or the first free one like it."""
    found, number = path, 2
    while found.exists():
        found, number = path.with_name(f"{path.name}-{number}"), number + 1
    return found
