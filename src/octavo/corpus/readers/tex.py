"""LaTeX (.tex): the text without commands, comments, the preamble, figures, tables and displayed formulas."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.formats import encoding_of, read_text
from octavo.corpus.readers.base import DocumentConfig
from octavo.errors import CorpusError

_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*\n?[^\S\n]*")
_BEGIN, _END = re.compile(r"\\begin\s*\{document\}"), re.compile(r"\\end\s*\{document\}")
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([A-Za-z]+)\*?\}")
_DROPPED = {
    *(
        "figure",
        "wrapfigure",
        "table",
        "tabular",
        "tabularx",
        "longtable",
        "tikzpicture",
        "picture",
        "lstlisting",
    ),
    *(
        "equation",
        "align",
        "alignat",
        "gather",
        "multline",
        "eqnarray",
        "displaymath",
        "math",
        "array",
        "filecontents",
    ),
    *("thebibliography", "comment", "verbatim", "minted", "algorithm", "algorithmic"),
}
_DISPLAYED = re.compile(r"\$\$.*?\$\$|(?<!\\)(?P<breaks>(?:\\\\)*)\\\[(?>(?:[^\\]|\\[^\[\]])*)\\\]", re.S)
"""A formula of its own line; the `\\\\[` of a line break with a space after it, inside or outside, begins none."""
_TOKEN = re.compile(
    r"\\([A-Za-z]+)\*?[^\S\n]*|\\(.)|([{}])|(\$[^$\n]*(?:\n[^$\n]+)*\$)|(``|''|---|--|~)", re.S
)
_MARKS = {"``": "“", "''": "”", "---": "—", "--": "–", "~": " "}
_ESCAPED = {"\\": "\n", "-": "", "/": "", "\n": " ", **dict.fromkeys(" ,;:!@", " ")}
_NAMED = {
    "ss": "ß",
    "ae": "æ",
    "AE": "Æ",
    "oe": "œ",
    "OE": "Œ",
    "aa": "å",
    "AA": "Å",
    "o": "ø",
    "O": "Ø",
    "l": "ł",
    "L": "Ł",
    "i": "i",
    "j": "j",
    "S": "§",
    "copyright": "©",
    "euro": "€",
    "pounds": "£",
    "ldots": "…",
    "dots": "…",
    "textendash": "–",
    "textemdash": "—",
    "textbackslash": "\\",
    "LaTeX": "LaTeX",
    "TeX": "TeX",
    "quad": " ",
    "qquad": " ",
    "space": " ",
    "par": "\n\n",
    "newline": "\n",
    "linebreak": "\n",
    "item": "\n- ",
}
_ACCENTS: dict[str, str] = dict(
    zip(
        "`'^\"~=.uvHcdkr",
        "\u0300\u0301\u0302\u0308\u0303\u0304\u0307\u0306\u030c\u030b\u0327\u0323\u0328\u030a",
        strict=True,
    )
)
"""Commands, and the characters that combine with the letter before them."""
_ACCENTED = re.compile(
    r"""\\(?:([`'^"~=.])\s*|([uvHcdkr])(?![A-Za-z])\s*)(?:\{\s*\\?([A-Za-z]?)\s*\}|\\?([A-Za-z]))"""
)
_SILENT = {
    *(
        "cite",
        "citep",
        "citet",
        "citealp",
        "parencite",
        "textcite",
        "autocite",
        "nocite",
        "ref",
        "eqref",
        "pageref",
    ),
    *(
        "autoref",
        "cref",
        "Cref",
        "label",
        "includegraphics",
        "input",
        "include",
        "bibliography",
        "index",
        "vspace",
    ),
    *(
        "bibliographystyle",
        "usepackage",
        "documentclass",
        "hspace",
        "newcommand",
        "renewcommand",
        "setlength",
    ),
    *(
        "pagestyle",
        "thispagestyle",
        "pagenumbering",
        "setcounter",
        "addtocounter",
        "hypersetup",
        "definecolor",
    ),
    *(
        "providecommand",
        "newtheorem",
        "graphicspath",
        "addbibresource",
        "printbibliography",
        "color",
        "fontsize",
    ),
    *("begin", "end", "hyphenation", "addcontentsline", "geometry", "newenvironment", "def"),
}
"""Commands whose arguments are no text."""
_HEADS = {"part", "chapter", "section", "subsection", "subsubsection", "paragraph", "title", "caption"}
_ARGUMENT = 10_000  # characters of an argument that is passed over


def tex_text(source: str) -> str:
    """The text of a LaTeX document or of a part of one; formulas within a line stay as they are written."""
    if begin := _BEGIN.search(source):
        end = _END.search(source, begin.end())
        source = source[begin.end() : end.start() if end else len(source)]
    source = _DISPLAYED.sub(r"\g<breaks> ", _without_environments(_COMMENT.sub(r"\1", source)))
    source = _ACCENTED.sub(_accented, source)
    out: list[str] = []
    closing: list[str] = []
    at = 0
    head = False  # whether the next group is a title
    while found := _TOKEN.search(source, at):
        out.append(source[at : found.start()])
        at = found.end()
        name, escaped, brace, formula, mark = found.groups()
        if brace == "{":
            closing.append("\n\n" if head else "")
            head = False
        elif brace:
            out.append(closing.pop() if closing else "")
        elif formula or mark:
            out.append(formula or _MARKS[mark])
        elif escaped:
            out.append(_ESCAPED.get(escaped, escaped))
            if escaped == "\\":
                at = _past_arguments(source, at + (source[at : at + 1] == "*"), "[")
        elif name in _SILENT:
            at = _past_arguments(source, at, "[{")
            out.append("\n" if name in ("begin", "end") else "")
        else:
            out.append(_NAMED.get(name, ""))
            at = _past_arguments(source, at, "[")
            head = name in _HEADS
            out.append("\n\n" if head else "")
    out.append(source[at:])
    lines = [" ".join(line.split()) for line in "".join(out).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _without_environments(source: str) -> str:
    """Cut out what stands in environments that hold no running text, and what is nested in them."""
    kept, at, inside = [], 0, []
    for found in _ENVIRONMENT.finditer(source):
        what, name = found.groups()
        if name not in _DROPPED:
            continue
        if what == "begin":
            if not inside:
                kept.append(source[at : found.start()])
            inside.append(name)
        elif inside and inside[-1] == name:
            inside.pop()
            at = found.end()
    return "".join([*kept, "" if inside else source[at:]])


def _accented(found: re.Match[str]) -> str:
    letter = found[3] or found[4] or ""
    return unicodedata.normalize("NFC", letter + _ACCENTS[found[1] or found[2]]) if letter else ""


def _past_arguments(source: str, at: int, opening: str) -> int:
    """Where the arguments in brackets that begin at a place end."""
    while source[at : at + 1] and source[at] in opening:
        depth, ends = 0, {"[": "]", "{": "}"}[source[at]]
        begins = source[at]
        for place in range(at, min(len(source), at + _ARGUMENT)):
            depth += (source[place] == begins) - (source[place] == ends)
            if not depth:
                break
        else:
            return at
        at = place + 1
    return at


@register("reader")
class TexConfig(DocumentConfig):
    """LaTeX, as the text that it prints."""

    kind: Literal["tex"] = "tex"
    suffixes: ClassVar[tuple[str, ...]] = (".tex", ".latex")
    label: ClassVar[str] = "LaTeX (.tex)"

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        try:
            source = "".join(read_text(file, "", encoding_of(file, "", options["encoding"])))
        except CorpusError as error:
            raise CorpusError(error.what.strip(), remedy=error.remedy) from error
        text = tex_text(source)
        if not text:
            raise CorpusError("holds commands alone, and no text.")
        yield "", iter([text])
