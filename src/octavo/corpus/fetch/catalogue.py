"""The texts that can be fetched by name, and where on this machine they are kept."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import Field, ValidationError, field_validator

from octavo.config import Strict, parse_yaml
from octavo.corpus.documents import NAMED
from octavo.errors import ConfigError, CorpusError
from octavo.util.files import default_cache, from_home
from octavo.util.records import FileRecord


class Entry(Strict):
    """A text of the catalogue."""

    name: str
    """What it is called."""
    title: str
    """What it is."""
    address: str
    """Where it comes from."""
    file: str
    """What its file is called here."""
    licence: str
    """What may be done with it."""
    about: float = Field(gt=0)
    """Its size in megabytes, roughly."""
    bytes: int | None = Field(None, ge=1)
    """Its size, where it is pinned."""
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """Its hash, where it is pinned."""

    @property
    def size(self) -> str:
        """Size of the download, such as `1.1 MB`."""
        return f"{self.bytes:,} bytes" if self.bytes else f"about {self.about:g} MB"

    def path(self, cache: Path | None = None) -> Path:
        """Where it is kept when it was fetched."""
        return (cache or default_cache()) / "corpora" / self.file

    def remembered(self, cache: Path | None = None) -> FileRecord | None:
        """What is known of the file that was fetched; None when it never was."""
        path = self.path(cache)
        try:
            return FileRecord.parse(path.with_name(path.name + ".json").read_bytes())
        except (OSError, ValueError):
            return None


@cache
def catalogue() -> dict[str, Entry]:
    """All texts by name, in alphabetical order."""
    text = resources.files("octavo.corpus.fetch").joinpath("catalogue.yaml").read_text(encoding="utf-8")
    tree = parse_yaml(text, "The catalogue")
    return {name: Entry(name=name, **tree[name]) for name in sorted(tree)}


def entry(name: str) -> Entry:
    """One text of the catalogue. Raises CorpusError that names the nearest."""
    known = catalogue()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise CorpusError(
            f"There is no text '{name}' in the catalogue." + (f" Did you mean '{near[0]}'?" if near else ""),
            remedy="octavo corpus get    lists all",
        )
    return known[name]


def named_path(given: str) -> Path:
    """The file of `corpus:NAME`. Raises CorpusError when there is no such text, or it was not fetched yet."""
    wanted = entry(given.removeprefix(NAMED))
    path = wanted.path()
    if not path.is_file():
        raise CorpusError(
            f"The text '{wanted.name}' is not on this machine yet.", remedy=f"octavo corpus get {wanted.name}"
        )
    record = wanted.remembered()
    if record is not None and path.stat().st_size != record.bytes:
        raise CorpusError(
            f"The text '{wanted.name}' has {path.stat().st_size:,} bytes where {record.bytes:,} were fetched.",
            remedy=f"octavo corpus get {wanted.name}    fetches it again",
        )
    return path


# Where else the texts of the catalogue may lie: mirrors from the environment and the user's settings.


class UserSettings(Strict):
    """The user's settings, from a YAML file in the user's config folder."""

    mirrors: tuple[str, ...] = ()
    """Addresses that are tried before a text's own, in order; each holds the files of the catalogue by name."""
    allow_private: bool = False
    """Whether machines of a private network may be asked."""

    @field_validator("mirrors")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not each.startswith(("http://", "https://")):
                raise ValueError(f"the mirror '{each}' must begin with http:// or https://")
        return value


@dataclass(frozen=True)
class Mirrors:
    """What is tried before a text's own address.

    Attributes:
        bases: addresses of folders.
        allow_private: whether machines of a private network may be asked.
    """

    bases: tuple[str, ...] = ()
    allow_private: bool = False

    def addresses(self, entry: Entry) -> list[str]:
        """All addresses of a text, in the order in which they are tried."""
        return [*(f"{base.rstrip('/')}/{entry.file}" for base in self.bases), entry.address]


def settings_path() -> Path:
    """The user's settings: $OCTAVO_CONFIG, or octavo/config.yaml where the platform keeps settings."""
    if chosen := os.environ.get("OCTAVO_CONFIG"):
        return from_home(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        xdg = Path(os.environ.get("XDG_CONFIG_HOME", ""))
        base = xdg if xdg.is_absolute() else Path.home() / ".config"
    return base / "octavo" / "config.yaml"


def user_mirrors() -> Mirrors:
    """The mirrors of $OCTAVO_MIRRORS (addresses with spaces between them), then those of the user's settings.

    Raises ConfigError when they cannot be read.
    """
    path = settings_path()
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        settings = UserSettings.model_validate(parse_yaml(text, str(path)) or {})
        named = UserSettings(mirrors=tuple(os.environ.get("OCTAVO_MIRRORS", "").split()))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"])
        raise ConfigError(
            f"The mirrors of {path} and $OCTAVO_MIRRORS cannot be used: {where}: {first['msg']}."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The settings {path} cannot be read.") from error
    allowed = settings.allow_private or os.environ.get("OCTAVO_ALLOW_PRIVATE", "") not in ("", "0")
    return Mirrors((*named.mirrors, *settings.mirrors), allowed)
