"""Ten texts of ten kinds on which nothing was fitted, made from their public addresses.

    python benchmarks/texts.py FOLDER
    python benchmarks/texts.py FOLDER --from CLONES

Each is fetched at one commit, read as UTF-8 with Unix line breaks, without Project Gutenberg's header and licence, its
parts joined in the order of their paths, and checked by its SHA-256; what is in FOLDER already and right is kept.
With `--from` nothing is fetched: CLONES has a clone of every repository, named OWNER+NAME.

No power of two lies between the first eighteen twentieths of a text and these with the last, which `zpaq` needs.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from common import finish, print_table
from octavo.corpus.fetch.catalogue import Entry, user_mirrors
from octavo.corpus.fetch.downloads import fetch_entry
from octavo.corpus.formats import decoded
from octavo.corpus.readers.text import without_gutenberg
from octavo.util.files import file_hash, written_aside

PUBLIC = "public domain in the USA"


class Text(NamedTuple):
    """What a text is made of: `paths` of a commit of a repository on GitHub, of these the first `lines` where that is
    said; `bytes` and `sha256` are of the text that is made."""

    name: str
    kind: str
    licence: str
    repository: str
    commit: str
    paths: tuple[str, ...]
    bytes: int
    sha256: str
    encoding: str = "utf-8"
    lines: int | None = None


TEXTS = (
    Text(
        name="kidnapped",
        kind="a novel (Stevenson)",
        licence=PUBLIC,
        repository="GITenberg/Kidnapped_421",
        commit="9c8d81a8c5a780094821215c578e9ec0f33461fa",
        paths=("421-0.txt",),
        bytes=431237,
        sha256="5f1ecfd8cbca671fbd887ffbb65dddf166cfa176c3b6bbc51aa789cc5b9e8d3b",
    ),
    Text(
        name="you-never-can-tell",
        kind="a play (Shaw)",
        licence=PUBLIC,
        repository="GITenberg/You-Never-Can-Tell_2175",
        commit="46ec78346a62eb8098f4922a937a68db787e28ea",
        paths=("2175.txt",),
        bytes=201353,
        sha256="665743effde4396dc8ea01cad66810b1c704eeb1eb1e5dc002c0fcc8f9657558",
    ),
    Text(
        name="arsene-lupin",
        kind="French prose (Leblanc)",
        licence=PUBLIC,
        repository="GITenberg/Ars-ne-Lupin-gentleman-cambrioleur_32854",
        commit="b8d1e4b5b9fd5d8e2d96d28fc0938201bf4ff3fd",
        paths=("32854-8.txt",),
        bytes=344246,
        sha256="1adf016639d978b11b5abfb2b32c364c83745bb497ce7aed9fd21d532754c417",
        encoding="windows-1252",
    ),
    Text(
        name="effi-briest",
        kind="German prose (Fontane)",
        licence=PUBLIC,
        repository="GITenberg/Effi-Briest_5323",
        commit="ad711db620a52853f8191bfd1a66e45fda0e51be",
        paths=("5323-8.txt",),
        bytes=602430,
        sha256="016bbddaa2edaf0f816a11a1d564ccbae04e624eddceffe052c053c9a8a05f63",
        encoding="windows-1252",
    ),
    Text(
        name="marianela",
        kind="Spanish prose (Pérez Galdós)",
        licence=PUBLIC,
        repository="GITenberg/Marianela_17340",
        commit="4e67b60bc38da27e1fcdfbc995ca2dd9863e5d05",
        paths=("17340-8.txt",),
        bytes=301602,
        sha256="061040d16374dfee829773bbfad3eeaeac5faafd1aef2b96d9919988f6b19f30",
        encoding="windows-1252",
    ),
    Text(
        name="baskervillen-koira",
        kind="Finnish prose (Doyle, translated)",
        licence=PUBLIC,
        repository="GITenberg/Baskervillen-koira_32536",
        commit="0a19718801d8dfb188aefa2a39bb1b2500cb8832",
        paths=("32536-8.txt",),
        bytes=469243,
        sha256="1b20be54d05e57bccd75402482e43172e3656de6f25f38f4aeac9bb0b45f19d7",
        encoding="windows-1252",
    ),
    Text(
        name="paradise-lost",
        kind="verse (Milton)",
        licence=PUBLIC,
        repository="GITenberg/Paradise-Lost_20",
        commit="6650cc0695a58de52b861ab1528c1d4b96f9036d",
        paths=("20-0.txt",),
        bytes=462846,
        sha256="9eac11b3bbcfb40ecd5c2e29860f0ed4569e153307f2ade13fc9ec77a9e69ed9",
    ),
    Text(
        name="lua",
        kind="sources in C",
        licence="MIT",
        repository="lua/lua",
        commit="53b41d0cddd80bf33fdc631bdd32e3ba53842b89",
        paths=tuple(
            """
            lapi.c lapi.h lauxlib.c lauxlib.h lbaselib.c lcode.c lcode.h lcorolib.c lctype.c
            lctype.h ldblib.c ldebug.c ldebug.h ldo.c ldo.h ldump.c lfunc.c lfunc.h lgc.c lgc.h
            linit.c liolib.c ljumptab.h llex.c llex.h llimits.h lmathlib.c lmem.c lmem.h loadlib.c
            lobject.c lobject.h lopcodes.c lopcodes.h lopnames.h loslib.c lparser.c lparser.h
            lprefix.h lstate.c lstate.h lstring.c lstring.h lstrlib.c ltable.c ltable.h ltablib.c
            ltests.c ltests.h ltm.c ltm.h lua.c lua.h luaconf.h lualib.h lundump.c lundump.h
            lutf8lib.c lvm.c lvm.h lzio.c lzio.h onelua.c
            """.split()
        ),
        bytes=999715,
        sha256="5e96a2e932c729ee1227a60fe7bda914362ee967dacb0cc7d6ef8885d4ec7558",
    ),
    Text(
        name="tornado",
        kind="sources in Python",
        licence="Apache-2.0",
        repository="tornadoweb/tornado",
        commit="e530031405e2154654dedc4c84d5656b557ea310",
        paths=tuple(
            f"tornado/{name}.py"
            for name in """
            __init__ _locale_data auth autoreload concurrent curl_httpclient escape gen
            http1connection httpclient httpserver httputil ioloop iostream locale locks log netutil
            options process queues routing simple_httpclient tcpclient tcpserver template testing
            util web websocket wsgi
            """.split()
        ),
        bytes=898280,
        sha256="c8b08c55b9f06471b0b1651fe981d3d28712505295717cbc50c7c31914d6a157",
    ),
    Text(
        name="apache-logs",
        kind="the log of a web server",
        licence="Apache-2.0",
        repository="elastic/examples",
        commit="6d86454ebb7a850bcd7e80abe86fe683370018a6",
        paths=("Common Data Formats/apache_logs/apache_logs",),
        bytes=925161,
        sha256="adf985a21b2a4b4df7c5e1a19d23a08781b547462d871ec6eabb4af7a057bb24",
        lines=4000,
    ),
)


def fetched(text: Text, path: str, cache: Path) -> bytes:
    """A part, from its address or a mirror of it. Raises CorpusError, StorageError."""
    place = quote(f"{text.repository}/{text.commit}/{path}")
    part = Entry(
        name=f"{text.name}/{path}",
        title=text.kind,
        address=f"https://raw.githubusercontent.com/{place}",
        file=place,
        licence=text.licence,
        about=round(text.bytes / len(text.paths) / 1e6, 3),
    )
    return fetch_entry(
        part, cache, user_mirrors(), False, say, lambda done, total: None, time.sleep
    ).path.read_bytes()


def cloned(text: Text, path: str, clones: Path) -> bytes:
    """A part, from a clone of its repository. Raises CalledProcessError."""
    clone = clones / text.repository.replace("/", "+")
    shown = ["git", "-C", str(clone), "show", f"{text.commit}:{path}"]
    return subprocess.run(shown, check=True, stdout=subprocess.PIPE).stdout


def made(text: Text, part: Callable[[Text, str], bytes]) -> bytes:
    """The text from its parts. Raises CorpusError."""
    read = (decoded(io.BytesIO(part(text, path)), path, text.encoding, say) for path in text.paths)
    whole = "".join("".join(without_gutenberg(pieces, lambda header, licence: None)) for pieces in read)
    return "".join(islice(io.StringIO(whole), text.lines)).encode()


def say(sentence: str) -> None:
    """What goes on."""
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    """The texts that are missing, a table of all, a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="clones", type=Path, help="a folder of clones, named OWNER+NAME")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="octavo-texts-") as cache:
        part = partial(cloned, clones=given.clones) if given.clones else partial(fetched, cache=Path(cache))
        for text in TEXTS:
            path = given.folder / f"{text.name}.txt"
            if path.exists():
                if path.is_file() and file_hash(path) == text.sha256:
                    continue
                sys.exit(f"{path} is something else; give another folder")
            with written_aside(path) as aside:
                aside.write_bytes(made(text, part))
                if (found := file_hash(aside)) != text.sha256:
                    sys.exit(f"{text.name} has the SHA-256 {found}, not {text.sha256}; it is not kept")
    columns = "name", "kind", "bytes", "licence", "repository", "commit", "sha256"
    rows = [{column: getattr(text, column) for column in columns} for text in TEXTS]
    print_table([{column: row[column] for column in columns[:-2]} for row in rows])
    finish({"rows": rows})


if __name__ == "__main__":
    main()
