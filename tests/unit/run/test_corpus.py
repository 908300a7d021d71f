"""Texts by themselves: what cleaning writes, from documents that come in pieces."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus import Document
from octavo.run.corpus import SEPARATOR, _Separators, corpus_recipe, write_cleaned, written_pieces
from octavo.util.output import Output
from octavo.util.terminal import Console

PIECES = st.lists(st.text('ab \n\t"\\é\u2028\U0001f600', min_size=1, max_size=6), max_size=6)


@given(PIECES)
def test_a_document_in_pieces_is_written_as_in_one(pieces: list[str]) -> None:
    whole = "".join(pieces)

    def written(**how: Any) -> str:
        document = Document("a", iter(pieces), how.pop("file", ""))
        return "".join(written_pieces(document, **{"lines": False, "records": False, **how}))

    assert written() == whole
    assert written(lines=True) == " ".join(whole.split()) + "\n"
    assert json.loads(written(records=True)) == {"text": whole}
    assert json.loads(written(records=True, file='a "b".txt')) == {"file": 'a "b".txt', "text": whole}


@given(PIECES.map(lambda pieces: [piece.replace("é", SEPARATOR) for piece in pieces]))
def test_a_document_that_holds_the_line_between_documents_is_noticed(pieces: list[str]) -> None:
    noticing = _Separators()
    assert list(noticing.noticed(pieces)) == pieces
    cut = [line for line in "".join(pieces).split("\n") if line.strip() == SEPARATOR]
    assert noticing.documents == bool(cut)


@pytest.mark.parametrize(("name", "cut"), [("out.txt", 2), ("out.jsonl", 0)])
def test_documents_that_a_text_cannot_keep_whole_are_counted(tmp_path: Path, name: str, cut: int) -> None:
    texts = ["one", f"two\n{SEPARATOR}\nthree", f"four {SEPARATOR}\nfive", f" {SEPARATOR} \nsix"]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    said = io.StringIO()
    recipe = corpus_recipe(str(tmp_path / "in.jsonl"), None, "plain")
    written = write_cleaned(recipe, Output(tmp_path / name), Console(stream=said))
    assert (written.documents, written.cut) == (4, cut)
    assert ("--out FILE.jsonl keeps" in said.getvalue()) == bool(cut)
