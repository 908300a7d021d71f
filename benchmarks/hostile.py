"""Two hundred hostile files, the same every time: archives that lead out, link, swell or nest, documents that are cut
off, flipped or full of entities. What `hostile_reading.py` and a test read.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

_ENTITIES = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">' + "".join(
    f'<!ENTITY {chr(c + 1)} "{f"&{chr(c)};" * 10}">' for c in range(ord("b"), ord("m"))
)
_OUTSIDE = (
    "../../escaped.txt",
    "/tmp/escaped.txt",
    "a/../../escaped.txt",
    "..\\escaped.txt",
    "C:\\escaped.txt",
    "a\0b.txt",
)


def packed(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip, whatever its members are called."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return out.getvalue()


def _tar(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for entry, data in entries:
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


def _traversal() -> Iterator[tuple[str, bytes]]:
    for number, name in enumerate(_OUTSIDE):
        yield f"out{number}.zip", packed([(name, b"escaped"), ("good.txt", b"inside")])
        tar = _tar([(_entry(name.replace("\0", "")), b"escaped"), (_entry("good.txt"), b"inside")])
        yield f"out{number}.tar", tar
        yield f"out{number}.tar.gz", gzip.compress(tar)


def _links() -> Iterator[tuple[str, bytes]]:
    kinds = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
    for number, kind in enumerate(kinds):
        yield (
            f"link{number}.tar",
            _tar([(_entry("a.txt", kind, "/etc/passwd"), b""), (_entry("b.txt"), b"inside")]),
        )
        info = zipfile.ZipInfo("a.txt")
        info.external_attr = (0o120777, 0o020666, 0o060666, 0o010666, 0o140777)[number] << 16
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(info, "/etc/passwd")
        yield f"link{number}.zip", out.getvalue()


def _bombs(size: int) -> Iterator[tuple[str, bytes]]:
    zeros = bytes(size)
    spaces = b" " * size
    yield "bomb.zip", packed([("a.txt", zeros), ("good.txt", b"inside")])
    yield "bomb.txt.gz", gzip.compress(spaces)
    yield "bomb.txt.bz2", bz2.compress(spaces)
    yield "bomb.txt.xz", lzma.compress(spaces)
    inner = packed([("a.txt", spaces)])
    yield "matryoshka.zip", packed([(f"{n}.zip", inner) for n in range(16)])
    yield "bomb.tar.gz", gzip.compress(_tar([(_entry("a.txt"), zeros)]))
    yield "bomb.docx", packed([("[Content_Types].xml", b""), ("word/document.xml", spaces * 2)])
    yield "bomb.epub", packed([("mimetype", b"application/epub+zip"), ("META-INF/container.xml", spaces * 2)])
    pax = _entry("pax", tarfile.XHDTYPE)
    pax.size = 4 << 30  # a header that claims four gigabytes
    yield "header.tar", pax.tobuf(tarfile.PAX_FORMAT)
    yield "header.tar.gz", gzip.compress(pax.tobuf(tarfile.USTAR_FORMAT) + bytes(size))


def _nested() -> Iterator[tuple[str, bytes]]:
    for depth in (5, 20, 200):
        data, tar = b"deep", b"deep"
        for level in range(depth):
            data = packed([("n.txt" if not level else "n.zip", data)])
            tar = _tar([(_entry("n.txt" if not level else "n.tar"), tar)])
        yield f"deep{depth}.zip", data
        yield f"deep{depth}.tar", tar
        gz = b"deep"
        for _ in range(depth):
            gz = gzip.compress(gz)
        yield f"deep{depth}.txt" + ".gz" * min(depth, 20), gz
    yield "deep.html", b"<html>" + b"<div>" * 4000 + b"x"
    yield "deep.docx", packed([("word/document.xml", b"<w:p xmlns:w='w'>" * 50_000)])
    yield "deep.jsonl", b'{"text": ' + b"[" * 200_000
    yield "deep.rtf", b"{\\rtf1 " + b"{" * 100_000


def _entities() -> Iterator[tuple[str, bytes]]:
    bomb = f'<?xml version="1.0"?>{_ENTITIES}]><x>&m;</x>'.encode()
    outside = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>'
    for number, xml in enumerate((bomb, outside)):
        yield f"entity{number}.docx", packed([("word/document.xml", xml)])
        odt = b"application/vnd.oasis.opendocument.text"
        yield f"entity{number}.odt", packed([("mimetype", odt), ("content.xml", xml)])
        yield (
            f"entity{number}.epub",
            packed([("mimetype", b"application/epub+zip"), ("META-INF/container.xml", xml)]),
        )


def _documents() -> dict[str, bytes]:
    """Good documents to damage."""
    text = ("Once there was a fox. " * 200).encode()
    paragraph = b"<w:p><w:r><w:t>" + text + b"</w:t></w:r></w:p>"
    word = b'<w:document xmlns:w="w"><w:body>' + paragraph * 5 + b"</w:body></w:document>"
    tar = _tar([(_entry(f"{n}.txt"), text) for n in range(5)])
    return {
        "docx": packed([("[Content_Types].xml", b""), ("word/document.xml", word)]),
        "zip": packed([(f"{n}.txt", text) for n in range(5)]),
        "tar": tar,
        "tar.gz": gzip.compress(tar),
        "txt.xz": lzma.compress(text),
        "txt.bz2": bz2.compress(text),
        "rtf": b"{\\rtf1\\ansi " + text + b"\\par}",
        "html": b"<html><body><p>" + text + b"</p></body></html>",
    }


def _damaged(pdfs: list[Path], rest: int) -> Iterator[tuple[str, bytes]]:
    draw = random.Random(4)
    sources = [(path.suffix[1:], path.read_bytes()) for path in pdfs]
    sources = sources * 2 + list(_documents().items())
    for number in range(rest):
        suffix, good = sources[number % len(sources)]
        data = bytearray(good)
        if number % 3 == 0:
            data = data[: draw.randrange(1, max(2, len(data)))]
        else:
            for _ in range(draw.choice([1, 10, 100, 1000])):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        yield f"damaged{number:03}.{suffix}", bytes(data)


def _false_sizes() -> Iterator[tuple[str, bytes]]:
    data = packed([("a.txt", b"text" * 100)])
    at = data.rfind(b"PK\x05\x06")
    yield "directory.zip", data[: at + 12] + struct.pack("<II", 0x7FFFFFFF, 0) + data[at + 20 :]
    yield "many.zip", packed([(f"{n}.bin", b"") for n in range(20_000)], zipfile.ZIP_STORED)


def hostile_files(pdfs: list[Path], count: int = 200, bomb: int = 80 << 20) -> Iterator[tuple[str, bytes]]:
    """Names and contents; `pdfs` are real ones to damage, `bomb` the bytes that a bomb unpacks to."""
    number = 0
    for kind in (_traversal(), _links(), _bombs(bomb), _nested(), _entities(), _false_sizes()):
        for name, data in kind:
            number += 1
            yield name, data
    yield from _damaged(pdfs, count - number)
