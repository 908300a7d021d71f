"""The referee while a model writes: only what the validator allows, whatever the model would rather say."""

from __future__ import annotations

import pytest
import torch

from octavo.corpus.validators.base import Validator, WrongSymbol
from octavo.errors import InputError
from octavo.generation import Engine, Sampling
from octavo.generation.constrain import Referee
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.tasks.records.symbols import SymbolTokenizer
from octavo.tokenizers.byte import ByteTokenizer
from octavo.tokenizers.char import CharTokenizer


class Balanced(Validator):
    """Brackets that close, at most two deep; after `x` nothing may come."""

    def start(self) -> int:
        return 0

    def after(self, state: int, symbol: str) -> int:
        depth = state + {"(": 1, ")": -1, "x": 100}[symbol]
        if state >= 100 or not (0 <= depth <= 2 or symbol == "x"):
            raise WrongSymbol("no")
        return depth

    def end(self, state: int) -> None:
        if state:
            raise WrongSymbol("open")


TOKENIZER = SymbolTokenizer(2, documents=True, names=("(", ")"), spaced=False)
MODEL = build_model(
    GPTConfig.model_validate({"layers": 1, "width": 16, "heads": 2, "context": 12}), vocab_size=3, seed=1
)


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=0), Sampling(top_k=1), Sampling(top_p=0.5)]
)
def test_every_sample_is_valid(sampling: Sampling) -> None:
    engine = Engine(MODEL, TOKENIZER, referee=Referee(Balanced(), TOKENIZER))
    samples = engine.samples("", tokens=11, sampling=sampling, count=8, seed=2)
    for sample in samples:
        verdict = Balanced().check(list(sample.text))
        assert verdict.valid if sample.finish == "end" else verdict.wrong == len(sample.text) + 1
        assert sample.finish in ("end", "length")


def test_without_a_referee_they_are_not() -> None:
    texts = [
        one.text for one in Engine(MODEL, TOKENIZER).samples("", tokens=11, sampling=Sampling(), count=8)
    ]
    assert not all(Balanced().check(list(text)).valid for text in texts)


def test_log_probabilities_are_the_model_s_own() -> None:
    engine = Engine(MODEL, TOKENIZER, referee=Referee(Balanced(), TOKENIZER))
    sample = engine.samples("", tokens=6, sampling=Sampling(temperature=0), count=1)[0]
    with torch.no_grad():
        ids = torch.tensor([[TOKENIZER.start, *sample.ids[:-1]]])
        known = MODEL(ids)[0].log_softmax(dim=-1)[torch.arange(len(sample.ids)), sample.ids]
    assert sample.log_probabilities == pytest.approx(known.tolist(), abs=1e-4)


def test_prompts_are_read_first() -> None:
    engine = Engine(MODEL, TOKENIZER, referee=Referee(Balanced(), TOKENIZER))
    for sample in engine.samples("((", tokens=10, sampling=Sampling(), count=4):
        assert Balanced().check(list("((" + sample.text)).wrong in (None, len(sample.text) + 3)
    with pytest.raises(InputError, match="its symbol 3 is wrong, because no"):
        engine.samples("(((", tokens=10, sampling=Sampling(), count=1)


def test_a_dead_end_is_said() -> None:
    tokenizer = SymbolTokenizer(3, documents=True, names=("(", ")", "x"), spaced=False)
    model = build_model(
        GPTConfig.model_validate({"layers": 1, "width": 16, "heads": 2, "context": 12}), vocab_size=4, seed=1
    )
    sample = Engine(model, tokenizer, referee=Referee(Balanced(), tokenizer)).samples(
        "(x", tokens=10, sampling=Sampling(), count=1
    )[0]
    assert (sample.finish, sample.text) == ("stuck", "")


def test_characters_are_symbols_and_bytes_are_not() -> None:
    assert Referee(Balanced(), CharTokenizer("()", documents=True, unknown=False)).symbols == ["(", ")"]
    with pytest.raises(InputError, match="tokenizer=byte has tokens that are not symbols"):
        Referee(Balanced(), ByteTokenizer(documents=True))
