"""GGUF files come back: logits, tokenizers, and a sentence for what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from octavo.config import load_recipe
from octavo.errors import InputError
from octavo.export.imported import import_model
from octavo.export.targets import targets
from octavo.export.targets.base import Parcel
from octavo.export.weights import weights_of
from octavo.model.base import build_model
from octavo.run.run import Run
from octavo.tokenizers.config import build_tokenizer

gguf = pytest.importorskip("gguf")

TEXT = "The old cat is well, and it shan't rain on 12 hills — so be it, Étienne!\n" * 20
BASE = ("model.layers=2", "model.width=32", "model.heads=4", "model.context=24", "model.dropout=0")
LLAMA = ("model.positions=rotary", "model.norm=rms", "model.head_bias=false", "model.output_bias=false")
KINDS: dict[str, tuple[str, ...]] = {
    "llama": (*LLAMA, "model.feed_forward=swiglu", "model.kv_heads=2"),
    "qwen3": (*LLAMA, "model.feed_forward=swiglu", "model.qk_norm=true", "model.qk_norm_scale=true"),
    "apertus": (*LLAMA, "model.feed_forward={kind: relu2, bias: false}", "model.qk_norm=true"),
    "arcee": (*LLAMA, "model.feed_forward={kind: relu2, bias: false}"),
    "gpt2": ("model.feed_forward=gelu_tanh", "model.qkv_bias=true", "model.head_bias=false"),
}


@torch.no_grad()
def written(folder: Path, kind: str, tokenizer: str, dtype: str) -> tuple[Any, Any, Path]:
    """The model, its tokenizer and the file."""
    recipe = load_recipe("crusoe-char-cpu", [*BASE, *KINDS[kind], f"tokenizer={tokenizer}"])
    own = build_tokenizer(recipe.tokenizer, lambda: iter([TEXT]), documents=True)
    model = build_model(recipe.model, vocab_size=own.vocab_size, seed=1).eval()
    random = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=random), alpha=0.05)
    parcel = Parcel(weights_of(model, recipe.model).to(torch.float64), own, dtype, "mine")
    targets()["gguf"].write(parcel, folder)
    return model, own, folder / "model.gguf"


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "near"), [("float32", 2e-5), ("float16", 0.02), ("bfloat16", 0.2)])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_come_back(kind: str, dtype: str, near: float, tmp_path: Path) -> None:
    model, tokenizer, file = written(tmp_path, kind, "bpe", dtype)
    import_model(file, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert kind in run.config.description
    ids = torch.randint(tokenizer.vocab_size, (2, 24), generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(run.model(ids), model(ids), rtol=0, atol=near)


@pytest.mark.parametrize(
    "kind", ["bpe", "char", "{kind: char, unknown: token}", "byte", "{kind: byte, characters: 5}"]
)
def test_tokenizers_come_back(kind: str, tmp_path: Path) -> None:
    text = TEXT if "char," not in kind and kind != "char" else TEXT.replace("É", "E").replace("—", "-")
    recipe = load_recipe("crusoe-char-cpu", [*BASE, *KINDS["llama"], f"tokenizer={kind}"])
    own = build_tokenizer(recipe.tokenizer, lambda: iter([text]), documents=True)
    model = build_model(recipe.model, vocab_size=own.vocab_size, seed=1)
    parcel = Parcel(weights_of(model, recipe.model).to(torch.float64), own, "float32", "mine")
    targets()["gguf"].write(parcel, tmp_path)
    import_model(tmp_path, tmp_path / "run")  # the folder with one such file
    found = Run.open(tmp_path / "run").tokenizer
    np.testing.assert_array_equal(found.encode(text), own.encode(text))
    assert found.decode(own.encode(text)) == text
    assert (found.end, found.vocab_size) == (own.end, own.vocab_size)


@pytest.mark.parametrize("cut", ["gpt-2", "llama-bpe", "qwen2"])
def test_tokenizers_of_others_come_back(cut: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from unit.export import folders

    theirs = folders.encoder(cut)
    theirs.add_tokens([folders.library.AddedToken("<tool>", normalized=False)])
    theirs.save(str(tmp_path / "tokenizer.json"))
    words = f"{{kind: huggingface, file: {tmp_path / 'tokenizer.json'}}}"
    _, own, file = written(tmp_path, "llama", words, "float32")
    import_model(file, tmp_path / "run")
    found = Run.open(tmp_path / "run").tokenizer
    text = f"{TEXT}{folders.TEXT} 1234567 a<tool>b\r\n\n  e\u0301"
    assert found.encode(text).tolist() == own.encode(text).tolist()
    assert own.token_text(int(own.encode("<tool>")[0])) == "<tool>"
    assert found.decode(own.encode(text)) == own.decode(own.encode(text))
    assert (found.end, found.vocab_size) == (own.end, own.vocab_size)


def test_what_is_no_model(tmp_path: Path) -> None:
    _, _, file = written(tmp_path, "llama", "bpe", "float32")
    whole = file.read_bytes()
    for number, content in enumerate((b"", b"GGUF", whole[:100], whole[: len(whole) // 2], b"x" * 1000)):
        damaged = tmp_path / f"damaged-{number}.gguf"
        damaged.write_bytes(content)
        with pytest.raises(InputError, match="damaged"):
            import_model(damaged, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [
        ("rope.scaling.type", "none", True),
        ("rope.scaling.factor", 1.0, True),
        ("rope.scaling.type", "linear", False),
        ("rope.scaling.factor", 8.0, False),
        ("rope.scale_linear", 2.0, False),
    ],
)
def test_stretched_positions_are_refused(
    key: str, value: Any, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = gguf.GGUFWriter.write_header_to_file

    def more(writer: Any, *given: Any) -> None:
        (writer.add_string if isinstance(value, str) else writer.add_float32)(f"llama.{key}", value)
        header(writer, *given)

    monkeypatch.setattr(gguf.GGUFWriter, "write_header_to_file", more)
    _, _, file = written(tmp_path, "llama", "bpe", "float32")
    if fits:
        import_model(file, tmp_path / "run")
        return
    with pytest.raises(InputError, match=f"llama.{key} = .*stretches no positions"):
        import_model(file, tmp_path / "run")


def test_rounded_weights_are_refused(tmp_path: Path) -> None:
    _, _, file = written(tmp_path, "llama", "bpe", "q8_0")
    with pytest.raises(InputError, match="Q8_0"):
        import_model(file, tmp_path / "run")


def test_words_that_are_not_read_can_be_named(tmp_path: Path) -> None:
    _, _, file = written(tmp_path, "llama", "bpe", "float32")
    file.write_bytes(file.read_bytes().replace(b"gpt-2", b"gpt-4"))
    with pytest.raises(InputError, match="tokenizer") as error:
        import_model(file, tmp_path / "run")
    assert "--tokenizer" in str(error.value.remedy)
