"""The libraries that read PDF, compared on real files: passages found whole, order, ligatures, time, size, licence.

python benchmarks/reading.py --pdfs FOLDER [--repeat 3]

pypdf and pdfminer.six are compared where they are installed: pip install pypdf pdfminer.six. FOLDER holds the PDFs
with text of the test data; what is expected of them are the passages of tests/unit/corpus/passages.py, which
were taken from the rendered pages.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from common import finish, load, print_table
from octavo.corpus.readers.pdf import PdfConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from unit.corpus import passages

EXPECTED = {
    "ar_habibi_rtl.pdf": ["حَبيبي habibi"],
    "en_4pages.pdf": passages.FOUR_PAGES,
    "en_google_doc.pdf": passages.WORD_PROCESSOR,
    "en_two_column_latex.pdf": passages.TWO_COLUMNS,
    "en_rescience_3162890.pdf": passages.SOLVERS,
    "en_rescience_3763416.pdf": passages.OCAML,
    "es_bases_de_datos.pdf": [*passages.SPANISH, passages.SPANISH_END],
}
Read = Callable[[Path], str]


def ours(path: Path) -> str:
    """As Octavo reads it."""
    with path.open("rb") as file:
        [(_, pieces)] = PdfConfig.extract(file, {"password": None}, lambda _: None)
        return "".join(pieces)


def pdfium_text(path: Path) -> str:
    """What pdfium gives by itself."""
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    return "\n".join(page.get_textpage().get_text_range() for page in document)


def pypdf_text(path: Path) -> str:
    """What pypdf gives by itself."""
    import pypdf

    return "\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)


def pdfminer_text(path: Path) -> str:
    """What pdfminer.six gives by itself."""
    from pdfminer.high_level import extract_text

    return extract_text(str(path))


LIBRARIES: dict[str, tuple[str, str, Read]] = {
    "Octavo, on pypdfium2": ("pypdfium2", "pypdfium2", ours),
    "pypdfium2": ("pypdfium2", "pypdfium2", pdfium_text),
    "pypdf": ("pypdf", "pypdf", pypdf_text),
    "pdfminer.six": ("pdfminer.six", "pdfminer", pdfminer_text),
}


def letters(text: str) -> str:
    """Only letters and digits, so that a library that makes no paragraphs and joins no words has its chance."""
    return "".join(c for c in unicodedata.normalize("NFKC", text) if c.isalnum())


def licence(package: str) -> str:
    """A package's licence, as it says itself."""
    told: Any = distribution(package).metadata
    names = [
        each.rpartition(" :: ")[2] for each in told.get_all("Classifier") or [] if each.startswith("License")
    ]
    return told.get("License-Expression") or "; ".join(names) or (told.get("License") or "?").splitlines()[0]


def installed(package: str) -> Iterator[tuple[str, float]]:
    """A package and what it needs that is here, with their sizes in MB."""
    todo, seen = [package], set()
    while todo:
        name = re.split(r"[\s;<>=!~\[(]", todo.pop())[0]
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        paths = [Path(str(found.locate_file(file))) for file in found.files or []]
        yield name, sum(path.stat().st_size for path in paths if path.is_file()) / 1e6
        todo += [each for each in found.requires or [] if "extra ==" not in each]


def compared(name: str, pdfs: Path, repeat: int) -> dict[str, object]:
    """A library's row."""
    package, _, read = LIBRARIES[name]
    whole = in_lines = expected = ligatures = hyphens = 0
    seconds = 0.0
    for file, wanted in EXPECTED.items():
        times = []
        for _ in range(repeat):
            begin = time.process_time()
            text = read(pdfs / file)
            times.append(time.process_time() - begin)
        seconds += min(times)
        paragraphs = {paragraph.strip() for paragraph in re.split(r"\n\s*\n", text)}
        flat = letters(text)
        expected += len(wanted)
        whole += sum(passage in paragraphs for passage in wanted)
        in_lines += sum(letters(passage) in flat for passage in wanted)
        ligatures += len(re.findall("[ﬀ-ﬆ]", text))
        hyphens += len(re.findall(r"[^\W\d_][-\u00ad\u2010\ufffe\x02]\r?\n[^\W\d_A-Z]", text))
    return {
        "library": name,
        "version": distribution(package).version,
        "licence": licence(package),
        "megabytes": round(sum(size for _, size in installed(package)), 1),
        "seconds": round(seconds, 2),
        "whole paragraphs": whole,
        "letters in order": in_lines,
        "of": expected,
        "ligatures left": ligatures,
        "words left cut": hyphens,
    }


def main() -> None:
    """Compare what is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pdfs", type=Path, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    rows, missing = [], []
    for name, (package, module, _) in LIBRARIES.items():
        if importlib.util.find_spec(module) is None:
            missing.append(package)
        else:
            rows.append(compared(name, asked.pdfs, asked.repeat))
    print_table(rows)
    finish({"libraries": rows, "not_installed": missing, "load": load()})


if __name__ == "__main__":
    main()
