"""How often the encoding of a text is guessed right, beside charset_normalizer alone.

    python benchmarks/encodings.py --texts FOLDER [--table results/encodings.md]

FOLDER has texts in UTF-8, each named after its language (Finnish.txt): pieces of several lengths from two places of
each are written in the encodings that were usual for it, and guessed. A guess is right where it gives the same text;
pieces of ASCII alone do not count. The page's texts: the sentences of Universal Dependencies' treebanks in 14 languages
(`# text = …` of their test and training parts) and eleven of `texts.py`, in French, German, Spanish, Finnish,
Portuguese, Dutch, Italian and English.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from charset_normalizer import from_bytes

from common import finish, in_markdown, print_table
from octavo.corpus import formats
from octavo.errors import CorpusError

WESTERN = ("cp1252", "cp850", "mac_roman")
CENTRAL = ("cp1250", "iso8859_2")
OF = {
    **dict.fromkeys(("Polish", "Czech", "Romanian", "Croatian", "Hungarian", "Slovak"), CENTRAL),
    **dict.fromkeys(("Lithuanian", "Latvian"), ("cp1257",)),
    "Estonian": ("cp1252", "cp1257"),
    "Icelandic": ("cp1252",),
    "Turkish": ("cp1254",),
    "Russian": ("cp1251", "koi8_r", "cp866", "iso8859_5"),
    "Greek": ("cp1253", "iso8859_7"),
}
"""Encodings that were usual for a language; of the others the western ones."""
PLACES, LENGTHS = (1_000, 20_000), (60, 300, 3_000, 60_000)
"""Characters."""


def theirs(sample: bytes) -> str | None:
    """The library's guess, windows-1252 where that fits as well."""
    best = from_bytes(sample, cp_isolation=formats._CANDIDATES).best()
    usual = from_bytes(sample, cp_isolation=["cp1252"]).best()
    if best is None or (usual and (usual.chaos, -usual.coherence) <= (best.chaos, -best.coherence)):
        best = usual
    return None if best is None else best.encoding


def ours(sample: bytes) -> str | None:
    """Octavo's."""
    try:
        return formats._guess(sample, "a text", 0).codec
    except CorpusError:
        return None


def samples(text: str, language: str) -> Iterator[tuple[str, int, bytes]]:
    """Encodings, lengths and pieces; what an encoding lacks is left out."""
    for codec in OF.get(language, WESTERN):
        for length in LENGTHS:
            for place in PLACES:
                written = text[place : place + length].encode(codec, errors="ignore")
                if not written.isascii():
                    yield codec, length, written


def is_right(guess: str | None, written: bytes, codec: str) -> bool:
    """Whether it gives the text that was written."""
    try:
        return guess is not None and written.decode(guess) == written.decode(codec)
    except UnicodeDecodeError:
        return False


def main() -> None:
    """The table, by length, and by language."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="write the page")
    given = parser.parse_args()
    found: dict[tuple[str, object], list[int]] = defaultdict(lambda: [0, 0, 0])
    for path in sorted(given.texts.glob("*.txt")):
        language = path.stem.rstrip("0123456789")
        for codec, length, written in samples(path.read_text(encoding="utf-8"), language):
            right = [is_right(guess(written), written, codec) for guess in (theirs, ours)]
            for key in (("characters", length), ("language", language)):
                found[key] = [a + b for a, b in zip(found[key], (*right, 1), strict=True)]
    tables = [
        [
            {name: key, "pieces": all_, "charset_normalizer": library, "Octavo": own}
            for (what, key), (library, own, all_) in found.items()
            if what == name
        ]
        for name in ("characters", "language")
    ]
    for rows in tables:
        print_table(rows)
    if given.table:
        pages = "\n".join(in_markdown(rows) for rows in tables)
        given.table.write_text(
            f"# Guessing encodings\n\n{__doc__}\nRight guesses.\n\n{pages}", encoding="utf-8"
        )
    finish({"rows": tables[0] + tables[1]})


if __name__ == "__main__":
    main()
