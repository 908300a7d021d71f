"""Texts by themselves: what cleaning writes, from documents that come in pieces."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from octavo.runs.corpus import written_pieces

PIECES = st.lists(st.text('ab \n\t"\\é\u2028\U0001f600', min_size=1, max_size=6), max_size=6)


@given(PIECES)
def test_a_document_in_pieces_is_written_as_in_one(pieces: list[str]) -> None:
    whole = "".join(pieces)

    def written(**how: bool) -> str:
        return "".join(written_pieces(iter(pieces), **{"lines": False, "records": False, **how}))

    assert written() == whole
    assert written(lines=True) == " ".join(whole.split()) + "\n"
    assert json.loads(written(records=True)) == {"text": whole}
