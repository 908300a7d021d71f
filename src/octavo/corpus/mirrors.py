"""Where else the texts of the catalogue may lie: mirrors from the environment and the user's settings."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError, field_validator

from octavo.config import Strict, parse_yaml
from octavo.corpus.catalogue import Entry
from octavo.errors import ConfigError
from octavo.ground.files import from_home


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
