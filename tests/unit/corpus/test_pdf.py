"""PDFs made here: scripts, hyphens, ligatures, columns, what is rubbish, what is damaged."""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus.pdf import damage
from octavo.corpus.pdf.damage import is_rubbish, unreadable_fonts
from octavo.corpus.pdf.layout import in_order
from octavo.corpus.pdf.lines import Line, PageText
from octavo.corpus.readers.pdf import PdfConfig
from octavo.errors import CorpusError
from unit.corpus.making import pdf, pdf_of_glyphs

pytest.importorskip("pypdfium2")

SENTENCES = [
    "El niño pequeño soñaba con una montaña de azúcar, y mañana será otro día.",
    "¿Dónde está la cigüeña que vimos ayer junto al río?",
    "Die Bücher über Größe und Maß stehen draußen vor der Tür.",
    "Schüler schwätzen schrecklich schnell; trotzdem lernt jeder etwas Nützliches.",
    "كان يا ما كان في قديم الزمان ولد صغير يعيش مع جدته.",
    "وكان يحب الأسماك والسلاحف، ولا يخاف من البحر.",
    "Once upon a time there was a little fox who wished to see the sea.",
    "Strengths and rhythms: twelfths, sixths, and 3.14159 of every length!",
    "1. Introduction . . . . . . . . . . . . . . . . . . . . . . . . . . . . . 9",
    "┌────────┬─────────┐ │ Nombre │ Edad │ ├────────┼─────────┤ │ Ana │ 20 │ └────────┴─────────┘",
    "+----+--------+ | id | nombre | +----+--------+ | 1 | Ana | +----+--------+",
]


def text_of(data: bytes) -> tuple[str, list[str]]:
    said: list[str] = []
    [(_, pieces)] = PdfConfig.extract(io.BytesIO(data), {"password": None}, said.append)
    return "".join(pieces), said


def set_in_lines(lines: Sequence[str], x: float = 50, y: float = 700) -> list[tuple[float, float, str]]:
    return [(x, y - 12 * number, line) for number, line in enumerate(lines)]


def seen(text: str, ligatures: Sequence[str] = ()) -> list[str]:
    """The glyphs of right-to-left text as they stand on the page, from left to right."""
    glyphs: list[str] = []
    while text:
        size = next((len(group) for group in ligatures if text.startswith(group)), 1)
        glyphs.append(text[:size])
        text = text[size:]
    return glyphs[::-1]


def test_german() -> None:
    page = set_in_lines(
        [
            "Die größte Überraschung war die Straßenbeleuch-",
            "tung am Fluß: grün, weiß und süß wie Brause. Im",
            "Haus- und Gartenbau half die E-Mail-Adresse der",
            "Ärztin, die für den Öffentlichen Nahver-",
            "kehr arbeitete.",
        ]
    )
    assert text_of(pdf([page]))[0] == (
        "Die größte Überraschung war die Straßenbeleuchtung am Fluß: grün, weiß und süß wie Brause. Im Haus- und "
        "Gartenbau half die E-Mail-Adresse der Ärztin, die für den Öffentlichen Nahverkehr arbeitete."
    )


def test_a_word_with_a_hyphen_of_its_own_keeps_it() -> None:
    page = set_in_lines(
        [
            "A well-known fox met another well-known fox, and",
            "then it met a third fox who was just as well-",
            "known.",
        ]
    )
    assert text_of(pdf([page]))[0].endswith("just as well-known.")
    page = set_in_lines(["Sie bauten ein Haus und einen Stall, dann Haus-", "und Gartentüren aus Holz."])
    assert text_of(pdf([page]))[0].endswith("dann Haus- und Gartentüren aus Holz.")


def test_spanish() -> None:
    page = set_in_lines(
        ["¿Quién vio al pingüino? La niña soña-", "dora lo buscó en la montaña, ¡y allí está!"]
    )
    assert text_of(pdf([page]))[0] == (
        "¿Quién vio al pingüino? La niña soñadora lo buscó en la montaña, ¡y allí está!"
    )


def test_arabic_comes_in_the_order_in_which_it_is_read() -> None:
    lines = [
        "كان يا ما كان في قديم الزمان ولد صغير",
        "يعيش مع جدته في بيت لا يبعد كثيرا عن",
        "البحر، وكان يحب الأسماك والسلاحف.",
    ]
    page = [(300.0, 700.0 - 12 * n, seen(line, ("لا", "لأ"))) for n, line in enumerate(lines)]
    assert text_of(pdf_of_glyphs([page]))[0] == " ".join(lines)


def test_arabic_in_presentation_forms() -> None:
    glyphs = ["\ufef3", "\ufefc", "\ufe91"]  # ya, lam with alef, ba, as they look inside a word
    assert text_of(pdf_of_glyphs([[(300, 700, [*glyphs, " ", *glyphs])]]))[0] == "بلاي بلاي"


def test_ligatures_become_letters() -> None:
    glyphs = [
        "o",
        "ﬃ",
        "c",
        "e",
        " ",
        "e",
        "ﬀ",
        "e",
        "c",
        "t",
        " ",
        "ﬁ",
        "s",
        "h",
        " ",
        "ﬂ",
        "y",
        " ",
        "a",
        "ﬄ",
        "e",
    ]
    assert text_of(pdf_of_glyphs([[(50, 700, glyphs)]]))[0] == "office effect fish fly affle"


def test_a_font_without_map_is_left_out() -> None:
    glyphs = list("Once there was a fox who could not be read by anybody at all.")
    with pytest.raises(CorpusError, match="is written in a font without Unicode map"):
        text_of(pdf_of_glyphs([[(50, 700, glyphs)]], mapped=False))


LEFT = [f"Left line number {number} of the first column and so on" for number in range(8)]
RIGHT = [f"Right line number {number} of the second column and on" for number in range(8)]


def test_columns_whose_content_goes_row_by_row() -> None:
    rows = [
        each for pair in zip(set_in_lines(LEFT, 40), set_in_lines(RIGHT, 320), strict=True) for each in pair
    ]
    head = (150.0, 740.0, "A title over both of the columns, from here on to the other side")
    text = text_of(pdf([[head, *rows]]))[0]
    places = [text.index(line) for line in [head[2], *LEFT, *RIGHT]]
    assert places == sorted(places)


@given(st.integers(6, 30), st.integers(6, 30), st.integers(120, 250), st.booleans())
def test_any_two_columns_row_by_row(left: int, right: int, width: int, first: bool) -> None:
    def lines(count: int, x: float, name: str) -> list[Line]:
        return [Line(f"{name} {n}", x, 700 - 12 * n, x + width, 710 - 12 * n, 10) for n in range(count)]

    columns = lines(left, 40, "left"), lines(right, 60 + width, "right")
    both = sorted(columns[0] + columns[1], key=lambda line: (-line.y0, line.x0 if first else -line.x0))
    jumps = sum(a.x0 != b.x0 for a, b in pairwise(both))
    ordered = in_order(both, both)
    if jumps > len(both) / 3:
        assert ordered == [*columns[0], *columns[1]]
    assert sorted(line.text for line in ordered) == sorted(line.text for line in both)


def test_pages_that_are_all_heads_are_kept() -> None:
    assert text_of(pdf([[(50, 700, f"Slide {number}")] for number in range(3)]))[0] != ""


def test_rows_of_a_table_stay_rows() -> None:
    rows = [("Ana", "20", "Madrid"), ("Luis", "22", "Sevilla"), ("Eva", "21", "Toledo")]
    page = [
        (50.0 + 150 * at, 700.0 - 12 * n, cell) for n, row in enumerate(rows) for at, cell in enumerate(row)
    ]
    lines = text_of(pdf([page]))[0].split("\n\n")
    assert [line.split() for line in lines] == [list(row) for row in rows]


@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=40))
def test_real_text_is_never_rubbish(sentences: list[str]) -> None:
    text = "\n".join(sentences)
    assert not is_rubbish(text)
    assert not unreadable_fonts(Line(sentence, 0, 0, 1, 1, 10, "F") for sentence in sentences)


@pytest.mark.parametrize("by", [-29, 29, 0xE000])
def test_numbers_of_glyphs_are_rubbish(by: int) -> None:
    text = " ".join(SENTENCES[6:8] * 3)
    assert is_rubbish("".join(c if c == " " else chr(max(33, ord(c) + by)) for c in text))
    assert is_rubbish("bcdfghjklm npqrstvwxz " * 4)


def test_one_unreadable_font_of_a_page() -> None:
    good = [Line(SENTENCES[6], 0, 0, 1, 1, 10, "good")] * 3
    shifted = "".join(
        c if c == " " else chr(ord(c) - 29) for c in SENTENCES[6]
    )  # as one finds it in real files
    bad = [Line(shifted, 0, 0, 1, 1, 10, "bad")] * 9
    few = [Line("HTTP, HTML, SQL, XML, CSS, PHP, SSH, DHCP, NTFS, PNG", 0, 0, 1, 1, 10, "few")]
    assert unreadable_fonts(good + bad + few) == {"bad"}
    page = PageText(good + bad + few, good + bad + few).without({"bad"})
    assert (
        page.lines == good + few and page.unread_lines == 9 and page.unread == sum(len(o.text) for o in bad)
    )


def packed_page() -> bytes:
    """A PDF whose page is packed, as nearly all are."""
    lines = "\n".join(f"BT /F1 10 Tf 50 {780 - 12 * n} Td (Line {n} of a page.) Tj ET" for n in range(40))
    plain = pdf([[(50, 700, "x")]])
    start, end = plain.index(b"<< /Length"), plain.index(b"endstream")
    content = zlib.compress(lines.encode())
    stream = b"<< /Filter /FlateDecode /Length %d >>\nstream\n%b\n" % (len(content), content)
    return plain[:start] + stream + plain[end:]


def test_a_page_whose_content_is_damaged_is_said() -> None:
    whole = packed_page()
    assert not damage.broken_streams(whole)
    at = whole.index(b"stream\n")
    flipped = bytearray(whole)
    flipped[at + 7 : at + 12] = b"wrong"
    with pytest.raises(
        CorpusError, match="is damaged: one of its parts does not unpack, and no text is left"
    ):
        text_of(bytes(flipped))
    flipped = bytearray(whole)
    flipped[whole.index(b"\nendstream") - 60] ^= 0x10
    text, said = text_of(bytes(flipped))
    assert "Line 0" in text and "Line 39" not in text
    assert said == [
        "the file is damaged: one of its parts does not unpack; what can be read on the one page with text is taken, "
        "and some may be missing"
    ]


def test_a_file_whose_table_of_contents_is_wrong_is_said() -> None:
    whole = pdf([[(50, 700, f"Page {number} of a long book {'and on' * number}.")] for number in range(5)])
    assert text_of(whole)[1] == []
    text, said = text_of(whole.replace(b"%PDF-1.4\n", b"%PDF-1.4\n% somebody wrote here\n"))
    assert "Page 0" in text and "Page 4" in text
    assert any("its table of contents is wrong or cut off" in sentence for sentence in said)


def lzw(data: bytes) -> bytes:
    """Packed as PDF does, codes getting wider one early."""
    known = {bytes([n]): n for n in range(256)}
    bits, width, held = [(256, 9)], 9, b""
    for byte in data:
        if held + bytes([byte]) in known:
            held += bytes([byte])
            continue
        bits.append((known[held], width))
        known[held + bytes([byte])] = len(known) + 2
        held = bytes([byte])
        width = max(9, (len(known) + 2).bit_length())
        if len(known) > 4000:
            bits.append((256, width))
            known, width = {bytes([n]): n for n in range(256)}, 9
    bits += [(known[held], width), (257, max(9, (len(known) + 3).bit_length()))]
    joined = "".join(f"{code:0{size}b}" for code, size in bits)
    joined += "0" * (-len(joined) % 8)
    return int(joined, 2).to_bytes(len(joined) // 8, "big")


@given(st.integers(0, 1000), st.integers(1, 30_000), st.sampled_from([2, 20, 256]))
def test_lzw_that_fits_and_that_does_not(seed: int, size: int, letters: int) -> None:
    draw = random.Random(seed)
    packed = lzw(bytes(draw.randrange(letters) for _ in range(size)))
    head = b"5 0 obj\n<< /Filter /LZWDecode /Length 9 >>\nstream\n"
    assert not damage.broken_streams(head + packed + b"\nendstream")
    # A first code of 511 after the table was cleared can mean nothing.
    assert damage.broken_streams(head + packed[:1] + b"\x7f\xff" + packed[3:] + b"\nendstream") == 1


@given(st.binary(max_size=300))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    head = b"1 0 obj << /Filter /%b >> stream\n"
    for name in (b"LZWDecode", b"FlateDecode"):
        assert damage.broken_streams(head % name + data + b"\nendstream") in (0, 1, 2)
