"""Which languages a corpus is in, file by file, from samples (py3langid, extra: data)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from octavo.corpus.documents import Document, Source, Wrapper
from octavo.errors import MissingExtra

SAMPLE = 3_000  # characters that a document is judged by
_FEWEST_LETTERS = 40  # in a sample; fewer say too little
_ALL_OF = 16  # documents of a file that are all judged; of more, every second, every fourth …
NOTICED = 0.05  # share of a language from which on it is named

_NAMES = """
af:Afrikaans am:Amharic ar:Arabic ary:Moroccan_Arabic arz:Egyptian_Arabic as:Assamese az:Azerbaijani
ba:Bashkir be:Belarusian bg:Bulgarian bn:Bengali br:Breton bs:Bosnian ca:Catalan cs:Czech cy:Welsh da:Danish
de:German el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish fo:Faroese
fr:French fy:Frisian ga:Irish gd:Scottish_Gaelic gl:Galician grc:Ancient_Greek gu:Gujarati ha:Hausa
hbo:Biblical_Hebrew he:Hebrew hi:Hindi hr:Croatian ht:Haitian hu:Hungarian hy:Armenian id:Indonesian ig:Igbo
is:Icelandic it:Italian ja:Japanese jv:Javanese ka:Georgian kk:Kazakh km:Khmer kn:Kannada ko:Korean ku:Kurdish
ky:Kyrgyz la:Latin lb:Luxembourgish lo:Lao lt:Lithuanian lv:Latvian mg:Malagasy mk:Macedonian ml:Malayalam
mn:Mongolian mr:Marathi ms:Malay mt:Maltese my:Burmese ne:Nepali nl:Dutch nn:Norwegian_Nynorsk no:Norwegian
oc:Occitan om:Oromo or:Odia pa:Punjabi pl:Polish ps:Pashto pt:Portuguese ro:Romanian ru:Russian rw:Kinyarwanda
sa:Sanskrit se:Northern_Sami si:Sinhala sk:Slovak sl:Slovenian sn:Shona so:Somali sq:Albanian sr:Serbian
sv:Swedish sw:Swahili ta:Tamil te:Telugu tg:Tajik th:Thai tk:Turkmen tl:Tagalog tr:Turkish tt:Tatar ug:Uyghur
uk:Ukrainian ur:Urdu uz:Uzbek vi:Vietnamese vo:Volapük wa:Walloon xh:Xhosa yo:Yoruba yue:Cantonese zh:Chinese
zu:Zulu ace:Acehnese an:Aragonese bcl:Central_Bikol crh:Crimean_Tatar dz:Dzongkha ext:Extremaduran fuv:Fulfulde
gcf:Guadeloupean_Creole gcr:Guianese_Creole gom:Konkani gug:Guarani guw:Gun kab:Kabyle kik:Kikuyu lg:Ganda lij:Ligurian
ln:Lingala ltg:Latgalian nso:Northern_Sotho pcm:Nigerian_Pidgin qu:Quechua sdh:Southern_Kurdish st:Sotho
uzs:Southern_Uzbek vec:Venetian wuu:Wu_Chinese zxx:no_language
"""
NAMES = {code: name for code, _, name in (pair.partition(":") for pair in _NAMES.split())}
"""English names of languages by their code; a code without one is shown as it is."""


def identifier() -> Any:
    """py3langid's model: `classify(text)` gives a code (ISO 639) and its probability. Raises MissingExtra."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise MissingExtra("py3langid", "data", "Telling languages apart") from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def name_of(code: str | None) -> str:
    """A language's name in English; `-` where it is not known."""
    return NAMES.get(code, code).replace("_", " ") if code else "-"


def spoken(text: Path, *, places: int = 20) -> dict[str, float]:
    """code → share of the places of a UTF-8 file, evenly spaced, that are in a language, the largest first; places with
    few letters do not count. Raises MissingExtra."""
    model, found = identifier(), Counter[str]()
    with text.open("rb") as file:
        for at in range(places):
            file.seek(text.stat().st_size * at // places)
            sample = file.read(SAMPLE).decode("utf-8", errors="ignore")
            if sum(map(str.isalpha, sample)) >= _FEWEST_LETTERS:
                found[str(model.classify(sample)[0])] += 1
    return {
        code: found[code] / found.total() for code in sorted(found, key=lambda code: (-found[code], code))
    }


@dataclass
class FileFigures:
    """One file of a corpus.

    Attributes:
        bytes, documents: of its text; bytes in UTF-8.
        languages: code → bytes; a document that was judged speaks for those after it as well.
        last_judged: the language of the last document that was judged.
    """

    name: str
    documents: int = 0
    bytes: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    last_judged: str | None = None

    @property
    def language(self) -> str | None:
        """The code of the language of most of it; None if it was not judged."""
        return min(self.languages, key=lambda code: (-self.languages[code], code), default=None)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "documents": self.documents,
            "bytes": self.bytes,
            "language": self.language,
            "languages": dict(sorted(self.languages.items())),
        }


class FileCounts:
    """Counts a corpus by file while its documents stream by.

    Args:
        most: files that are listed.
        several: judge languages only from the second file on (of the first, its first document), since loading what
            judges them takes longer than reading a small text.

    Attributes:
        files: by name, in the order of their first document; at most `most`.
        beyond: documents of further files, which are not listed.
        missing: why no languages are told, or None.
    """

    def __init__(self, *, most: int = 100_000, several: bool = False) -> None:
        self.files: dict[str, FileFigures] = {}
        self.beyond = 0
        self.missing: MissingExtra | None = None
        self._most = most
        self._identifier: Any = None
        self._wait = several
        self._held = ""  # how the first document begins, while there is one file only

    def add(self, name: str, size: int, sample: str) -> None:
        """A document of the file `name` with `size` bytes, which begins with `sample`."""
        found = self.files.get(name)
        if found is None:
            if len(self.files) == self._most:
                self.beyond += 1
                return
            found = self.files[name] = FileFigures(name)
        if self._wait and len(self.files) > 1:
            self._wait = False
            first = next(iter(self.files.values()))
            if (language := self._judge(self._held)) is not None:
                first.last_judged = language
                first.languages[language] = first.bytes
        if self._wait:
            self._held = self._held or sample
        elif found.documents % (1 << (found.documents // _ALL_OF).bit_length()) == 0:
            found.last_judged = self._judge(sample) or found.last_judged
        found.documents += 1
        found.bytes += size
        if found.last_judged:
            found.languages[found.last_judged] += size

    def _judge(self, sample: str) -> str | None:
        if self.missing or sum(map(str.isalpha, sample)) < _FEWEST_LETTERS:
            return None
        if self._identifier is None:
            try:
                self._identifier = identifier()
            except MissingExtra as error:
                self.missing = error
                return None
        return str(self._identifier.classify(sample)[0])

    def shares(self) -> dict[str, float]:
        """code → share of the judged bytes, the largest first."""
        total = Counter[str]()
        for found in self.files.values():
            total.update(found.languages)
        whole = total.total() or 1
        return {code: total[code] / whole for code in sorted(total, key=lambda code: (-total[code], code))}

    def sentence(self) -> str | None:
        """What to know about a corpus in several languages; None if it is in one."""
        named = [(code, share) for code, share in self.shares().items() if share >= NOTICED]
        if len(named) < 2:
            return None
        parts = [f"{share:.0%} of it is {name_of(code)}" for code, share in named[1:]]
        return (
            f"the text is in several languages: most is {name_of(named[0][0])}, "
            f"{', '.join(parts)} (from samples)"
        )


class CountedByFile(Wrapper):
    """Another source, its documents counted by file as they are read."""

    def __init__(self, source: Source, counts: FileCounts) -> None:
        super().__init__(source)
        self._counts = counts

    def remark(self) -> str | None:
        return self._counts.sentence()

    def documents(self) -> Iterator[Document]:
        for document in self.source.documents():
            yield Document(document.name, self._counted(document), document.file)

    def _counted(self, document: Document) -> Iterator[str]:
        size, sample = 0, ""
        for piece in document.pieces:
            size += len(piece.encode())
            if len(sample) < SAMPLE:
                sample += piece[:SAMPLE]
            yield piece
        self._counts.add(document.file, size, sample[:SAMPLE])
