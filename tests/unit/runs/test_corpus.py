"""Texts by themselves: what cleaning writes, from documents that come in pieces."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus import Document
from octavo.runs.corpus import written_pieces

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
