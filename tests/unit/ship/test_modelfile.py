"""What Ollama is told of a model."""

from __future__ import annotations

import pytest

from octavo.config import load_recipe
from octavo.ship.targets.base import Parcel
from octavo.ship.targets.gguf import modelfile
from octavo.ship.weights import Weights, shape_of
from octavo.tokenizers.char import CharTokenizer


@pytest.mark.parametrize(("documents", "line"), [(False, "num_predict 128"), (True, 'stop "<|endoftext|>"')])
def test_whatever_it_writes_comes_to_an_end(documents: bool, line: str) -> None:
    shape = shape_of(load_recipe("shakespeare-char-modern").model, vocab_size=4)
    own = CharTokenizer("abc", documents=documents, unknown=False)
    lines = modelfile(Parcel(Weights(shape, {}), own, "float32", "x", temperature=0.8)).splitlines()
    assert lines[:2] == ["FROM ./model.gguf", 'TEMPLATE "{{ .Prompt }}"']
    assert lines[2:] == ["PARAMETER num_ctx 128", "PARAMETER temperature 0.8", f"PARAMETER {line}"]
