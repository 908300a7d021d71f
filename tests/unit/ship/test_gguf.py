"""GGUF files, opened by llama.cpp in a process of its own, say what the run says."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.config import recipe_names
from octavo.errors import InputError
from octavo.ship.targets import targets
from unit.ship.made import TEXT, parcel_of, proven
from unit.ship.test_hf import overrides

pytest.importorskip("gguf")
llama = pytest.importorskip(
    "llama_cpp", reason="llama-cpp-python is not installed: pip install 'octavo[ship]'"
)
pytestmark = pytest.mark.slow

ASCII = TEXT.encode("ascii", "ignore").decode()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "q8_0", "q4_0"])
def test_the_main_case(tmp_path: Path, dtype: str) -> None:
    parcel, kept = parcel_of("shakespeare-char-modern", "model.layers=2", dtype=dtype, text=ASCII)
    seen = proven("gguf", parcel, kept, tmp_path / "out")
    assert seen["strings"]["taken_still"] == 0
    assert (tmp_path / "out" / "Modelfile").read_text().startswith("FROM ./model.gguf\n")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe(tmp_path: Path, name: str, test_data: Path) -> None:
    parcel, kept = parcel_of(name, *overrides(name, test_data), text=ASCII)
    target = targets()["gguf"]
    words = target.tokenizer(parcel.tokenizer.kind, parcel.tokenizer)
    if "impossible" in (target.model(parcel.weights.shape).status, words.status):
        with pytest.raises(InputError, match=r"cannot say this (model|tokenizer)"):
            target.refuse(parcel.weights.shape, parcel.tokenizer, "float32")
        return
    seen = proven("gguf", parcel, kept, tmp_path / "out")
    assert seen["strings"]["other_ids"] == 0


TOKENIZERS = {
    "char": (ASCII, "char"),
    "char beyond ASCII": (TEXT, "{kind: char, special: [<|endoftext|>]}"),
    "byte": (TEXT, "byte"),
    "byte with characters": (TEXT, "{kind: byte, characters: 9, min_frequency: 2}"),
    "bpe": (TEXT, "{kind: bpe, size: 400, special: [<|endoftext|>]}"),
}


@pytest.mark.parametrize("case", TOKENIZERS)
def test_tokenizers(tmp_path: Path, case: str) -> None:
    text, words = TOKENIZERS[case]
    parcel, kept = parcel_of("shakespeare-char-modern", "model.layers=1", f"tokenizer={words}", text=text)
    seen = proven("gguf", parcel, kept, tmp_path / "out")
    assert (
        seen["strings"]["compared"] > 500
        and seen["strings"]["other_ids"] == seen["strings"]["other_text"] == 0
    )


def test_without_an_end_it_is_refused_where_llama_cpp_would_invent_one() -> None:
    parcel, _ = parcel_of("shakespeare-char-modern", "model.layers=1")
    with pytest.raises(InputError, match="takes token 11 for the end of text"):
        targets()["gguf"].refuse(parcel.weights.shape, parcel.tokenizer, "float32")
