"""The canonical text: independent of pieces, with its documents where the tables say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.data import text as text_module
from octavo.data.text import CanonicalText, ingest
from octavo.errors import CorpusError
from unit.data.common import Given

TEXTS = st.lists(st.text(st.sampled_from("ab \né😀"), min_size=1).filter(str.strip), min_size=1, max_size=6)


def documents_of(text: CanonicalText) -> list[str]:
    content = text.path.read_bytes()
    return [content[a:b].decode() for a, b in zip(text.starts.tolist(), text.stops.tolist(), strict=True)]


@given(texts=TEXTS, size=st.integers(1, 5))
def test_tables_and_hash_do_not_depend_on_pieces(
    texts: list[str], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("text")
    text = ingest(Given(*texts, size=size), folder / "a.txt")
    assert documents_of(text) == texts
    assert text.characters.tolist() == [len(one) for one in texts]
    content = "".join(f"{one}\n" for one in texts) if len(texts) > 1 else texts[0]
    assert text.path.read_text() == content
    assert (text.bytes, text.total_characters) == (len(content.encode()), len(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "PIECE", size)
        assert "".join(text.pieces()) == content
    whole = ingest(Given(*texts), folder / "b.txt")
    assert (whole.sha256, whole.digests.tolist()) == (text.sha256, text.digests.tolist())


def test_the_hash_knows_text_and_boundaries(tmp_path: Path) -> None:
    def sha256(*texts: str) -> str:
        return ingest(Given(*texts), tmp_path / "a.txt").sha256

    hashes = [
        sha256("one", "two"),
        sha256("one\ntwo\n"),
        sha256("onet", "wo"),
        sha256("one", "twO"),
        sha256("one two"),
    ]
    assert len(set(hashes)) == len(hashes)
    assert sha256("one", "", "two") == sha256("one", "two")


def test_digests_see_through_white_space(tmp_path: Path) -> None:
    digests = ingest(Given("a b\nc", "a  b c", "a b d"), tmp_path / "a.txt").digests.tolist()
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("texts", [[], [""], ["\n \n"], [" ", "\n"]])
def test_no_text_is_an_error(texts: list[str], tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no text"):
        ingest(Given(*texts), tmp_path / "a.txt")


def test_progress_counts_bytes(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    ingest(Given("ab", "é"), tmp_path / "a.txt", lambda done, total: seen.append((done, total)))
    assert seen == [(2, None), (5, None)]
