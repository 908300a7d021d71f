"""What Ollama is told of a model."""

from __future__ import annotations

import pytest

from octavo.config import SamplingConfig, load_recipe
from octavo.config.parts import parts
from octavo.export.targets.base import Parcel
from octavo.export.targets.gguf import modelfile
from octavo.export.weights import Weights, shape_of
from octavo.tokenizers import build_tokenizer
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.chat import CHAT_TOKENS


@pytest.mark.parametrize(("documents", "line"), [(False, "num_predict 128"), (True, 'stop "<|endoftext|>"')])
def test_whatever_it_writes_comes_to_an_end(documents: bool, line: str) -> None:
    shape = shape_of(load_recipe("shakespeare-char-modern").model, vocab_size=4)
    own = CharTokenizer("abc", documents=documents, unknown=False)
    how = SamplingConfig(temperature=0.8, top_k=5)
    lines = modelfile(Parcel(Weights(shape, {}), own, "float32", "x", how)).splitlines()
    assert lines[:2] == ["FROM ./model.gguf", 'TEMPLATE "{{ .Prompt }}"']
    assert lines[2:] == [
        "PARAMETER num_ctx 128",
        "PARAMETER temperature 0.8",
        "PARAMETER top_k 5",
        "PARAMETER top_p 1",
        "PARAMETER min_p 0",
        "PARAMETER repeat_penalty 1",
        f"PARAMETER {line}",
    ]


def test_a_model_of_conversations_has_their_template_and_stops_at_the_end_of_a_turn() -> None:
    shape = shape_of(load_recipe("shakespeare-char-modern").model, vocab_size=4)
    config = parts("tokenizer")["byte"].model_validate({"special": CHAT_TOKENS})
    own = build_tokenizer(config, lambda: iter(()), documents=True)  # type: ignore[arg-type]
    text = modelfile(Parcel(Weights(shape, {}), own, "float32", "x"))
    assert (
        r"{{ if .Prompt }}\xff<|user|>{{ .Prompt }}\xff<|end|>{{ end }}\xff<|assistant|>{{ .Response }}\xff<|end|>"
        in text
    ), "by the names that the file has"
    assert 'PARAMETER stop "<|endoftext|>"' in text and 'PARAMETER stop "<|end|>"' in text
    assert "num_predict" not in text
