"""Mail, chats, LaTeX and Markdown as programs save them: what people wrote is read, what stands around it is not."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from octavo.corpus.readers.tex import tex_text
from octavo.corpus.readers.text import without_front_matter, without_times
from octavo.errors import CorpusError
from unit.corpus.making import zipped
from unit.corpus.test_readers import Read

PLAIN = b"""\
Received: from a.example by b.example; Mon, 1 Jan 2024 10:00:00 +0000
From: Ann <ann@a.example>
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
MIME-Version: 1.0
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Dear Bo,

it is f=FCnf o'clock, a line that the =
program broke.
"""
WRITTEN = "Dear Bo,\n\nit is fünf o'clock, a line that the program broke."


def mixed(attachment: bytes) -> bytes:
    """A message with two forms of its text, and a file."""
    return b"\r\n".join(
        [
            b"From: Ann <ann@a.example>",
            b"MIME-Version: 1.0",
            b'Content-Type: multipart/mixed; boundary="A"',
            b"",
            b"--A",
            b'Content-Type: multipart/alternative; boundary="B"',
            b"",
            b"--B",
            b"Content-Type: text/plain; charset=utf-8; format=flowed",
            b"Content-Transfer-Encoding: base64",
            b"",
            base64.encodebytes("Ein Satz, \r\nder weitergeht. Grüße\r\n-- \r\nAnn\r\n".encode()),
            b"--B",
            b"Content-Type: text/html; charset=utf-8",
            b"",
            b"<p>Not this one</p>",
            b"--B--",
            b"--A",
            b"Content-Type: text/plain; name=secret.txt",
            b"Content-Disposition: attachment; filename=secret.txt",
            b"",
            attachment,
            b"--A--",
            b"",
        ]
    )


def mbox(*messages: bytes) -> bytes:
    return b"".join(b"From ann@a.example Mon Jan  1 10:00:00 2024\n" + each + b"\n" for each in messages)


def read(path: Path, content: bytes, **options: object) -> Read:
    path.write_bytes(content)
    return Read(path, **options)


def test_a_mail_is_what_was_written_in_it(tmp_path: Path) -> None:
    assert read(tmp_path / "a.eml", PLAIN).texts == [WRITTEN]
    found = read(tmp_path / "b.eml", mixed(b"not this either")).texts
    assert found == ["Ein Satz, der weitergeht. Grüße\n-- \nAnn"]


def test_each_mail_of_a_mailbox_is_a_document(tmp_path: Path) -> None:
    nothing = b"Content-Type: image/png\n\nabc\n"
    quoted = b"Subject: x\n\n>From here on.\nFrom there too.\n"
    found = read(tmp_path / "a.mbox", mbox(PLAIN, nothing, quoted, mixed(b"x")))
    assert found.texts[:2] == [WRITTEN, "From here on.\nFrom there too."] and len(found.texts) == 3
    assert [name.rpartition(", ")[2] for name, _ in found.named] == ["message 1", "message 3", "message 4"]


def test_a_mailbox_is_told_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "Inbox").write_bytes(mbox(PLAIN))  # as Thunderbird calls it
    (tmp_path / "b.txt").write_text("From here on it is 10:00.\nDear: all", encoding="utf-8")
    assert Read(tmp_path).texts == [WRITTEN, "From here on it is 10:00.\nDear: all"]


@pytest.mark.parametrize("charset", ["", "x-unknown", "utf-8", "hex"])
def test_a_mail_in_a_wrong_or_unknown_encoding_is_read_all_the_same(tmp_path: Path, charset: str) -> None:
    said = f"Content-Type: text/plain; charset={charset}\n".encode() if charset else b""
    (text,) = read(
        tmp_path / "a.eml", said + b"Content-Transfer-Encoding: 8bit\n\n" + "Grüße aus Wien".encode()
    ).texts
    assert text == "Grüße aus Wien"


def test_hostile_mail_is_a_sentence(tmp_path: Path) -> None:
    deep = b"Subject: deep\n" + b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (at, at) for at in range(3000)
    )
    found = read(tmp_path / "a.mbox", mbox(deep, PLAIN, b"Content-Type: text/plain; charset=\xff\n\nok\n"))
    assert found.texts[0] == WRITTEN
    with pytest.raises(CorpusError, match="holds no written text"):
        read(tmp_path / "a.eml", b"Content-Type: image/png\n\nabc")


@pytest.mark.parametrize("name", ["a.eml", "a.mbox"])
def test_what_has_no_headers_is_no_mail(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorpusError, match="holds no written text"):
        read(tmp_path / name, bytes(range(256)) * 20)


TIMES = {
    "Android, English": ("12/31/23, 9:15 PM - ", "1/1/24, 12:05 AM - ", "1/1/24, 1:00 AM - "),
    "Android, German": ("31.12.23, 21:15 - ", "01.01.24, 00:05 - ", "01.01.24, 01:00 - "),
    "iPhone, German": ("[31.12.23, 21:15:03] ", "[01.01.24, 00:05:11] ", "\u200e[01.01.24, 01:00:59] "),
    "iPhone, American": (
        "[12/31/23, 9:15:03\u202fPM] ",
        "[1/1/24, 12:05:11\u202fAM] ",
        "[1/1/24, 1:00:59\u202fAM] ",
    ),
    "Swedish": ("2023-12-31 21:15 - ", "2024-01-01 00:05 - ", "2024-01-01 01:00 - "),
    "Spanish": ("31/12/23 21:15 - ", "1/1/24 0:05 - ", "1/1/24 1:00 a. m. - "),
    "Dutch": ("31-12-2023 21:15 - ", "01-01-2024 00:05 - ", "01-01-2024 01:00 - "),
    "French": ("31/12/2023 à 21:15 - ", "01/01/2024 à 00:05 - ", "01/01/2024 à 01:00 - "),
}
CHATS = {
    locale: f"{first}Ann: Hello\n{second}Bo: Happy\nnew year\n{third}Ann: You too"
    for locale, (first, second, third) in TIMES.items()
}


@pytest.mark.parametrize("locale", CHATS)
def test_chats_are_read_without_times(tmp_path: Path, locale: str) -> None:
    found = read(tmp_path / "chat.txt", CHATS[locale].encode())
    assert found.texts == ["Ann: Hello\nBo: Happy\nnew year\nAnn: You too"]
    assert any(sentence.endswith("a chat of 3 messages, read without times") for sentence in found.said)


def test_notices_and_media_of_a_chat_are_left_out(tmp_path: Path) -> None:
    chat = (
        "31.12.23, 21:00 - Nachrichten und Anrufe sind verschlüsselt.\nTippe für mehr.\n"
        "31.12.23, 21:15 - Ann: Hello\n31.12.23, 21:16 - Bo: <Medien ausgeschlossen>\n"
        "31.12.23, 21:17 - Bo: IMG-1.jpg (Datei angehängt)\n31.12.23, 21:18 - Bo: at 21:15 - yes: <3\n"
    )
    found = read(tmp_path / "chat.txt", chat.encode())
    assert found.texts == ["Ann: Hello\nBo: at 21:15 - yes: <3\n"]
    assert any("a chat of 2 messages, read without times; 3 notices" in sentence for sentence in found.said)


def test_a_diary_is_no_chat(tmp_path: Path) -> None:
    diary = (
        "31.12.2023\nIt rained.\n\n1.1.2024, 10:00 - a walk: cold.\n" + "Much more was written here.\n" * 20
    )
    assert read(tmp_path / "diary.txt", diary.encode()).texts == [diary]


def test_a_chat_is_the_same_in_any_pieces() -> None:
    text = CHATS["Android, German"] + "\n"
    for size in (1, 7, 50):
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        assert (
            "".join(without_times(pieces, lambda *_: None))
            == "Ann: Hello\nBo: Happy\nnew year\nAnn: You too\n"
        )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("---\ntitle: A day\ntags: [a, b]\n---\n\n# Two\n\ntext", "# Two\n\ntext"),
        ('+++\ntitle = "A day"\n+++\ntext', "text"),
        ("---\n# made by a program\ntitle: x\n...\ntext\n", "text\n"),
        ("---\n\nA rule, and no key: here\n---\n", None),
        ("---\ntitle: never closed\n", None),
        ("# Two\n---\na: b\n---\n", None),
    ],
)
def test_front_matter_of_markdown_is_cut_off(tmp_path: Path, content: str, text: str | None) -> None:
    found = read(tmp_path / "a.md", content.encode())
    assert found.texts == [content if text is None else text]
    assert any("front matter" in sentence for sentence in found.said) == (text is not None)
    assert read(tmp_path / "a.txt", content.encode()).texts == [content]


def test_a_line_without_end_is_not_gathered() -> None:
    chat = [
        *("31.12.23, 21:15 - Ann: Hello\n" * 4000),
        *["so on and on " * 10_000] * 10,
        "\n1.1.24, 1:00 - Bo: <x>",
    ]
    found = list(without_times(iter(chat), lambda *_: None))
    assert "".join(found) == "Ann: Hello\n" * 4000 + "so on and on " * 100_000 + "\nBo: <x>"
    assert max(map(len, found)) < 400_000


def test_hostile_front_matter_ends_soon() -> None:
    wide = f"---\na{' ' * 60_000}\n---\n"
    for text in ("---\n" + "\n" * 60_000, "---\n" + " \n#" * 20_000, "---\n" * 15_000, wide):
        assert "".join(without_front_matter([text], lambda _: None)) == text


LATEX = r"""
\documentclass[12pt]{article} % a comment
\newcommand{\x}{y}
\begin{document}
\title{A \emph{short} paper}
\section*{First}\label{sec:a}
It costs 5\,\% --- see~\cite[p.~3]{knuth}. % left out
``Quoted'', \textbf{bold \textit{and}} $a_1 \le b$.
\begin{equation} E = mc^2 \end{equation}
\begin{figure}[h]\begin{tabular}{ll} a & b \end{tabular}\caption{No}\end{figure}

Caf\'e, na\"{\i}ve, \c{c}a, Stra\ss e, \v{S}koda.\\
\begin{itemize}[noitemsep]
\item one
\end{itemize}
\end{document}
after
"""


def test_latex_is_the_text_that_it_prints(tmp_path: Path) -> None:
    expected = (
        "A short paper\n\nFirst\n\nIt costs 5 % — see . “Quoted”, bold and $a_1 \\le b$.\n\n\n"
        "Café, naïve, ça, Straße, Škoda.\n\n- one"
    )
    (text,) = read(tmp_path / "a.tex", LATEX.encode()).texts
    assert " ".join(text.split()) == " ".join(expected.split())
    assert text.split("\n\n")[:2] == ["A short paper", "First"]


@pytest.mark.parametrize(
    "source",
    ["{" * 50_000, "\\cite{" * 5_000, "\\begin{figure}" * 5_000 + "x", "\\[" * 60_000, "\\", "$", "}"],
)
def test_damaged_latex_ends_soon(source: str) -> None:
    assert isinstance(tex_text(source), str)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"One.\\[2pt] Two. \[ x \] Three.", "One. Two. Three."),
        (r"One.\\*[1ex] Two.\\\[ x \\[2pt] y \] Three.", "One. Two. Three."),
        (r"One. $$ x $$ Two.\\ [sic]", "One. Two. [sic]"),
    ],
)
def test_a_line_break_with_space_after_it_begins_no_formula(source: str, text: str) -> None:
    assert " ".join(tex_text(source).split()) == text


def test_what_other_programs_keep_beside_texts_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    others = [
        "~$a.docx",
        ".~lock.a.odt#",
        ".DS_Store",
        "Thumbs.db",
        ".a.txt.swp",
        "a.swp",
        "a.tmp",
        "a.txt~",
        "#a.txt#",
    ]
    for name in (*others, "b.txt.bak", "desktop.ini"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 or text")
    found = Read(tmp_path)
    assert found.texts == ["one"] and found.said == ["a.txt: the whole text is one document"]
    with pytest.raises(CorpusError, match=r"~\$a\.docx is the lock file of an office program, not a text"):
        Read(tmp_path / "~$a.docx")
    archive = zipped({"a.txt": "one", "~$b.docx": b"x", "__MACOSX/._a.txt": b"x", ".DS_Store": b"x"})
    found = read(tmp_path / "a.zip", archive)
    assert found.texts == ["one"] and not any("left out" in sentence for sentence in found.said)


def test_what_may_hold_text_is_named_first(tmp_path: Path) -> None:
    for name in ("a.txt", "b.png", "c.png", "d.png", "letter.doc", "notes", "paper.doc"):
        (tmp_path / name).write_bytes(b"some text")
    said = Read(tmp_path).said
    assert (
        "skipped, of unknown kinds: 2 × .doc (letter.doc, …), 1 × no ending (notes), 3 × .png (b.png, …)"
        in said
    )
