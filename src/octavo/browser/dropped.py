"""Texts that were dropped on the page: streamed into a folder of their own, bounded, under names that are cleaned. What
they hold is neither unpacked nor run; `octavo train` reads it as it reads any file."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.browser.runs import Stamp, stamp
from octavo.serving.errors import Refusal
from octavo.util.files import FULL, no_device

MOST_BYTES = 2**30
"""Of a file."""
MOST_TOGETHER = 2 * 2**30
"""Bytes of a text's files together."""
MOST_FILES = 3000
KEPT_FREE = 2**29
"""Bytes that a disk keeps free."""
DEPTH = 6
"""Folders in a folder that was dropped; deeper ones are put together."""
LONGEST = 100
LISTED = 60
PIECE = 2**20
PART = ".part"
UNWANTED = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\/=]+')
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Kinds of characters that nobody sees."""
TOO_LARGE = (
    f"A file may have {MOST_BYTES // 2**30} GiB, and all of a text {MOST_TOGETHER // 2**30}. Leave it where it is, "
    "and name it in a terminal: octavo train --text PATH --minutes 5"
)
CLOSE = {"Connection": "close"}
"""What was refused is not read to its end."""


@dataclass(frozen=True)
class TextCard:
    """A text as the page lists it.

    Attributes:
        path: what a command names: its one file, or its folder.
    """

    id: str
    path: str
    files: int
    bytes: int
    added: float


def clean(name: str) -> str:
    """A name without what a path, a shell, a terminal or Windows takes for something else; never empty."""
    kinds = ((one, unicodedata.category(one)) for one in unicodedata.normalize("NFC", name))
    text = "".join("-" if kind in UNSEEN else " " if kind == "Zs" else one for one, kind in kinds)
    text = no_device(UNWANTED.sub("-", text).strip(" .-~"))
    stem, dot, end = text.rpartition(".")
    if len(text.encode()) > LONGEST:
        keep = end if dot and len(end.encode()) <= 10 else ""
        room = LONGEST - len(keep.encode()) - 1
        short = (stem if keep else text).encode()[:room].decode("utf-8", "ignore").strip(" .-")
        text = f"{short}.{keep}" if keep else short
    return text or "text"


class Texts:
    """The texts of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, tuple[Stamp, TextCard]] = {}
        self._open: dict[str, int] = {}  # files that are being written, by text

    def cards(self) -> Iterator[tuple[str, TextCard]]:
        """The newest."""
        try:
            entries = [entry for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        cards = [
            card for entry in entries if not entry.name.startswith(".") and (card := self.card(entry.name))
        ]
        for card in sorted(cards, key=lambda card: -card.added)[:LISTED]:
            yield f"text:{card.id}", card

    def card(self, id: str) -> TextCard | None:
        """A text; None where there is none."""
        folder = self.folder / id
        if clean(id) != id or not folder.is_dir() or folder.is_symlink():
            return None
        now, kept = stamp(folder), self._known.get(id)
        if kept is not None and kept[0] == now and not self._open.get(id):
            return kept[1]
        files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != PART]
        size = sum(path.stat().st_size for path in files)
        path = files[0] if len(files) == 1 else folder
        card = TextCard(id, str(path), len(files), size, folder.stat().st_mtime)
        self._known[id] = (now, card)
        return card if files or self._open.get(id) else None

    def new(self, name: str) -> str:
        """A folder for another text: its id. Raises OSError."""
        base = clean(Path(name.replace("\\", "/")).name.rsplit(".", 1)[0] or name)
        id, number = base, 2
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                (self.folder / id).mkdir()
                return id
            except FileExistsError:
                id, number = f"{base}-{number}", number + 1

    async def take(self, id: str, name: str, length: int | None, pieces: AsyncIterator[bytes]) -> int:
        """Write a file of a text as it comes; its bytes. Raises Refusal; then nothing of it is left."""
        folder = self.folder / id
        if clean(id) != id or not folder.is_dir() or folder.is_symlink():
            raise Refusal(404, "There is no such text; drop it again.")
        parts = [clean(part) for part in name.replace("\\", "/").split("/") if part.strip(" .")] or ["text"]
        place = folder.joinpath(*parts[:-1][:DEPTH], parts[-1])
        self._open[id] = self._open.get(id, 0) + 1
        try:
            return await self._write(place, self._room(folder, length), pieces)
        except OSError as error:
            if error.errno in FULL:
                raise full() from None
            raise Refusal(500, "The text could not be written.", headers=CLOSE) from error
        finally:
            self._open[id] -= 1
            self._known.pop(id, None)
            with suppress(OSError):  # folders in which nothing came
                for each in place.relative_to(self.folder).parents:
                    (self.folder / each).rmdir()

    def _room(self, folder: Path, length: int | None) -> int:
        """How many more bytes a text may have; `length`: of the file that comes, where that is known. Raises
        Refusal."""
        there = [path for path in folder.rglob("*") if path.is_file()]
        together = sum(path.stat().st_size for path in there)
        if len(there) >= MOST_FILES:
            raise Refusal(
                413, f"A text may have {MOST_FILES:,} files; put them together, or drop a part of them."
            )
        room = min(MOST_BYTES, MOST_TOGETHER - together)
        if length is not None and length > room:
            raise Refusal(413, TOO_LARGE, headers=CLOSE)
        if shutil.disk_usage(folder).free < (length or 0) + KEPT_FREE:
            raise full()
        return room

    async def _write(self, place: Path, room: int, pieces: AsyncIterator[bytes]) -> int:
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_name(f".{secrets.token_hex(8)}{PART}")
        written, held = 0, bytearray()
        try:
            with aside.open("xb") as file:
                async for piece in pieces:
                    written += len(piece)
                    if written > room:
                        raise Refusal(413, TOO_LARGE, headers=CLOSE)
                    held += piece
                    if len(held) >= PIECE:
                        await asyncio.to_thread(file.write, bytes(held))
                        held.clear()
                file.write(held)
            aside.rename(free(place))
        finally:
            aside.unlink(missing_ok=True)
        return written


def full() -> Refusal:
    """There is no room for it."""
    what = "The disk is full: there is no room for this text. Free some space, then drop it again."
    return Refusal(507, what, code="disk_full", headers=CLOSE)


def free(place: Path) -> Path:
    """The name, or the first free one like it."""
    path, number = place, 2
    while os.path.lexists(path):
        path, number = place.with_stem(f"{place.stem}-{number}"), number + 1
    return path
