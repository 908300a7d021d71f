"""GGUF files, opened by llama.cpp, say what the run says."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.corpus.records.turns import Message
from octavo.errors import InputError
from octavo.export.targets import targets
from octavo.tokenizers.chat import CHAT_TOKENS, ChatTemplate
from unit.export import folders
from unit.export.made import TEXT, parcel_of, proven

pytest.importorskip("gguf")
llama = pytest.importorskip(
    "llama_cpp", reason="llama-cpp-python is not installed: pip install 'octavo[ship]'"
)
Jinja2ChatFormatter = pytest.importorskip("llama_cpp.llama_chat_format").Jinja2ChatFormatter
pytestmark = pytest.mark.slow

ASCII = TEXT.encode("ascii", "ignore").decode()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "q8_0", "q4_1", "q4_0"])
def test_the_main_case(tmp_path: Path, dtype: str) -> None:
    parcel, kept = parcel_of("shakespeare-char-modern", "model.layers=2", dtype=dtype, text=ASCII)
    seen = proven("gguf", parcel, kept, tmp_path / "out")
    assert seen.strings.taken_still == 0
    assert (tmp_path / "out" / "Modelfile").read_text().startswith("FROM ./model.gguf\n")


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
    assert seen.strings.compared > 500 and seen.strings.other_ids == seen.strings.other_text == 0


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
def test_llama_cpp_reads_a_conversation_as_the_run_does(tmp_path: Path, kind: str) -> None:
    size = ", size: 400" if kind == "bpe" else ""
    special = ", ".join(f"'{token}'" for token in ("<|endoftext|>", *CHAT_TOKENS))
    words = f"tokenizer={{kind: {kind}{size}, special: [{special}]}}"
    parcel, _ = parcel_of("shakespeare-char-modern", "model.layers=1", words, text=ASCII)
    targets()["gguf"].write(parcel, tmp_path)
    model = llama.Llama(str(tmp_path / "model.gguf"), verbose=False, vocab_only=True)
    form = Jinja2ChatFormatter(model.metadata["tokenizer.chat_template"], eos_token="<|end|>", bos_token="")
    said = [
        Message(role, ASCII[at : at + 9])  # type: ignore[arg-type]
        for at, role in enumerate(("system", "user", "assistant", "user"))
    ]
    for given in (said[:2], said[1:2], said):
        prompt = form(messages=[each.as_dict() for each in given]).prompt
        found = model.tokenize(prompt.encode(), add_bos=False, special=True)
        assert found == ChatTemplate(parcel.tokenizer).render(given, answering=True).ids.tolist()


def test_without_an_end_it_is_refused_where_llama_cpp_would_invent_one() -> None:
    parcel, _ = parcel_of("shakespeare-char-modern", "model.layers=1")
    with pytest.raises(InputError, match="takes token 11 for the end of text"):
        targets()["gguf"].refuse(parcel.weights.shape, parcel.tokenizer, "float32")


@pytest.mark.parametrize(
    ("cut", "status"), [("gpt-2", "exact"), ("llama-bpe", "exact"), ("qwen2", "approximate")]
)
def test_tokenizers_of_others(tmp_path: Path, cut: str, status: str) -> None:
    theirs = folders.encoder(cut)
    theirs.add_tokens([folders.library.AddedToken("<tool>", normalized=False)])
    theirs.save(str(tmp_path / "tokenizer.json"))
    words = f"tokenizer={{kind: huggingface, file: {tmp_path / 'tokenizer.json'}}}"
    text = TEXT + "\n<tool> 1234567 it's  \r\n\n we'LL see\t…" * 20
    parcel, kept = parcel_of("shakespeare-char-modern", "model.layers=1", words, text=text)
    assert targets()["gguf"].tokenizer("huggingface", parcel.tokenizer).status == status
    seen = proven("gguf", parcel, kept, tmp_path / "out").strings
    assert seen.compared > 900 and seen.other_ids <= (0 if status == "exact" else 20)


def test_other_tokenizers_of_others_are_refused(tmp_path: Path) -> None:
    theirs = folders.encoder()
    theirs.normalizer = folders.library.normalizers.Lowercase()
    theirs.save(str(tmp_path / "tokenizer.json"))
    words = f"tokenizer={{kind: huggingface, file: {tmp_path / 'tokenizer.json'}}}"
    parcel, _ = parcel_of("shakespeare-char-modern", "model.layers=1", words)
    with pytest.raises(InputError, match="byte-level and cuts words as GPT-2"):
        targets()["gguf"].refuse(parcel.weights.shape, parcel.tokenizer, "float32")
