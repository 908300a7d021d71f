"""Bytes to text: encodings told and guessed, line breaks, and what is no text at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus import formats
from octavo.corpus.formats import Encoding, encoding_of, read_text
from octavo.errors import ConfigError, CorpusError


def read(path: Path, wanted: str = "auto") -> tuple[str, Encoding]:
    with path.open("rb") as file:
        encoding = encoding_of(file, path.name, wanted)
        return "".join(read_text(file, path.name, encoding)), encoding


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "PIECE", 3)


SAMPLES = {
    "windows-1252": "Le garçon a mangé à la cafétéria. «C’était très bon», dit-il. Où êtes-vous allés cet été ? ",
    "windows-1250": "Zażółć gęślą jaźń, powiedział chłopiec i poszedł do domu swojej babci. ",
    "ISO8859-2": "Příliš žluťoučký kůň úpěl ďábelské ódy, řekl šťastný děda. ",
    "windows-1254": "Küçük çocuk dağın yanında yaşıyordu, ağaçların gölgesinde şarkı söylerdi. ",
    "CP850": "Perché non può venire più tardi? Così è la libertà, disse, già stanco di città. ",
    "MAC-ROMAN": "El niño comió en la montaña; ¿dónde está el corazón?, preguntó la señora después. ",
    "windows-1251": "Мама мыла раму, а мальчик играл в саду с большой собакой. ",
    "KOI8-R": "Мама мыла раму, а мальчик играл в саду с большой собакой. ",
    "CP932": "むかしむかし、あるところにおじいさんとおばあさんがいました。",
    "GB18030": "从前有一个小男孩，他住在一座大山的旁边。",
    "windows-1253": "Μια φορά και έναν καιρό ήταν ένα μικρό αγόρι. ",
}


@pytest.mark.parametrize("label", SAMPLES)
def test_other_encodings_are_detected(label: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes((SAMPLES[label] * 20).encode(label))
    text, encoding = read(path)
    assert text == SAMPLES[label] * 20
    assert encoding.label == label and encoding.guessed


FINNISH = "Yhtäkkiä näki Marja venheen pysähtyvän; hän ei tiennyt, mitä tehdä. "
HUNGARIAN = "Szegény ember volt, sűrű erdő mellett őrizte a hűvös kőházat, és így élt. "


@pytest.mark.parametrize("times", [1, 20, 2000])
@pytest.mark.parametrize(("text", "codec"), [(FINNISH, "cp1252"), (FINNISH, "cp850"), (HUNGARIAN, "cp1250")])
def test_letters_of_one_language_tell_an_encoding(text: str, codec: str, times: int, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes((text * times).encode(codec))
    assert read(path)[0] == text * times


def test_foreign_words_in_english_are_no_polish(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    written = "A naïve façade, the rôle of a régime, Mr. Müller’s café in Málaga, piñatas, vis-à-vis. "
    path.write_bytes((written * 20).encode("cp1252"))
    assert read(path) == (written * 20, Encoding("cp1252", guessed=True))


def test_a_short_windows_1252_text_is_not_taken_for_something_rarer(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes("notes: café et thé.\n".encode("cp1252"))
    assert read(path) == ("notes: café et thé.\n", Encoding("cp1252", guessed=True))


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_marked_unicode_is_read_whatever_the_pieces(codec: str, tmp_path: Path, small_pieces: None) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Añb 😀\r\nç\r".encode(codec))
    text, encoding = read(path)
    assert text == "Añb 😀\nç\n"
    assert not encoding.guessed


@given(text=st.text(st.sampled_from("ab\r\né😀")), size=st.integers(1, 7))
def test_cuts_change_neither_characters_nor_line_breaks(
    text: str, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cuts") / "a.txt"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "PIECE", size)
        with path.open("rb") as file:
            pieces = list(read_text(file, "a.txt", Encoding("utf-8")))
    assert "".join(pieces) == text.replace("\r\n", "\n").replace("\r", "\n")


def test_a_stray_byte_far_inside_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"plain words " * 200_000 + "un café très bon à Orléans".encode("cp1252") + b" and on" * 99
    )
    text, encoding = read(path)
    assert encoding.label == "windows-1252" and "café très bon à Orléans" in text


def test_damaged_utf8_is_not_taken_for_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(("naïve café déjà vu " * 50).encode() + b"\xff" + "été".encode())
    with pytest.raises(CorpusError, match=r"UTF-8 but for some damaged bytes, the first at byte 1,150"):
        read(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"%PDF-1.7\n1 0 obj", "is a PDF document"),
        (b"PK\x03\x04 rest", "is a zip archive"),
        (b"\x1f\x8b\x08 rest", "compressed with gzip"),
        (b"\x89PNG\r\n\x1a\n", "is a PNG picture"),
        (b"text " * 9 + b"\x00", "byte 45 is NUL"),
        (b"ab\x00", "is a binary file"),
        (b"text " * 400_000 + b"\x00", "byte 2,000,000 is NUL"),
        (bytes(range(1, 32)) * 9, "is a binary file"),
    ],
)
def test_what_is_no_text_is_refused(content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=what) as caught:
        read(path)
    assert caught.value.remedy


def test_noise_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(bytes(range(128, 256)) * 20)
    with pytest.raises(CorpusError, match="any encoding that Octavo knows"):
        read(path)


def test_a_wanted_encoding_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Ωμέγα".encode("iso8859-7"))
    assert read(path, "iso8859-7")[0] == "Ωμέγα"
    with pytest.raises(ConfigError, match="no text encoding 'klingon'"):
        read(path, "klingon")
    with pytest.raises(ConfigError, match="no text encoding 'hex'"):
        read(path, "hex")
    with pytest.raises(CorpusError, match="not ASCII all through"):
        read(path, "ascii")


def test_a_wanted_utf8_still_drops_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("é".encode("utf-8-sig"))
    assert read(path, "utf8")[0] == "é"


@pytest.mark.parametrize(
    ("encoding", "data"),
    [("utf-7", b"a+2AA-b"), ("raw_unicode_escape", rb"a\ud800"), ("punycode", b"a-\xff")],
)
def test_half_characters_and_other_errors_of_rare_encodings_are_refused(
    encoding: str, data: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(CorpusError, match="all through"):
        read(path, encoding)


def test_utf7_is_read(tmp_path: Path, small_pieces: None) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Ωμέγα 𐀀 é".encode("utf-7"))
    assert read(path, "utf-7")[0] == "Ωμέγα 𐀀 é"
