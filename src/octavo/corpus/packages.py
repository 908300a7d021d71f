"""Documents that are zips of XML (.docx, .odt, .epub): their parts, and their XML, safely.

A part is unpacked in memory up to a limit, and XML that declares entities is refused: neither can swell.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from typing import BinaryIO
from xml.parsers import expat

from octavo.errors import CorpusError

PART_BYTES = 128 << 20  # of one part when it is unpacked
_DIRECTORY_BYTES = 64 << 20  # of a zip's table of contents, which is read whole
_AGAIN = "Open and save it again with another program."


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """A zip's table of contents.

    Raises:
        CorpusError: it is damaged, or too large; the sentence continues after the file's name.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - 65_557))  # the record at the end and the longest comment
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0:
        raise CorpusError("is a damaged zip: its table of contents is missing.", remedy=_AGAIN)
    if int.from_bytes(tail[at + 12 : at + 16], "little") in range(_DIRECTORY_BYTES, 0xFFFFFFFF):
        raise CorpusError("has too many members to list.", remedy="Split it into smaller archives.")
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError) as error:
        raise CorpusError(f"is a damaged zip: {error}.", remedy=_AGAIN) from error


def part(package: zipfile.ZipFile, name: str) -> bytes:
    """One part of a document. Raises CorpusError: it is missing, damaged or too large."""
    try:
        with package.open(name) as file:
            data = file.read(PART_BYTES + 1)
    except KeyError as error:
        raise CorpusError(f"is damaged: it has no part {name!r}.", remedy=_AGAIN) from error
    except RuntimeError as error:
        raise CorpusError("is encrypted.", remedy="Save it without a password.") from error
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise CorpusError(f"is damaged in its part {name!r}: {error}.", remedy=_AGAIN) from error
    if len(data) > PART_BYTES:
        raise CorpusError(f"unpacks to more than {PART_BYTES >> 20} MB in its part {name!r}.", remedy=_AGAIN)
    return data


def parse_xml(
    data: bytes,
    start: Callable[[str, dict[str, str]], None],
    end: Callable[[str], None],
    text: Callable[[str], None],
) -> None:
    """Read XML element by element; names come without their namespace's prefix.

    Raises:
        CorpusError: it is no XML, or declares entities.
    """
    parser = expat.ParserCreate(namespace_separator=" ")

    def refuse(*_: object) -> None:
        raise CorpusError("declares XML entities, which documents do not need and attacks do.", remedy=_AGAIN)

    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = lambda name, attributes: start(
        _local(name), {_local(key): value for key, value in attributes.items()}
    )
    parser.EndElementHandler = lambda name: end(_local(name))
    parser.CharacterDataHandler = text
    parser.buffer_text = True
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError) as error:
        raise CorpusError(f"is damaged: its XML breaks off or is wrong ({error}).", remedy=_AGAIN) from error


def _local(name: str) -> str:
    return name.rpartition(" ")[2]
