"""The decoder whose step is recorded on a GPU, beside its slow twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graphs import Graph, play_graphs
from octavo.config.parts import parts
from octavo.generation import Engine, Sampling
from octavo.generation.cuda_graph import RecordedDecoder
from octavo.generation.engine import fastest_decoder
from octavo.generation.full import FullDecoder
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.model.positions import LearnedPositions, Positions
from octavo.tokenizers.char import CharTokenizer

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_A_GPU = pytest.mark.skipif(GPU.type == "cpu", reason="there is no GPU here")
SHAPE: dict[str, Any] = {"layers": 2, "width": 32, "heads": 2, "context": 96}
MODELS: dict[str, dict[str, Any]] = {
    "rotary, one key head": {"positions": "rotary", "kv_heads": 1},
    "sinusoidal, rms": {"positions": "sinusoidal", "norm": "rms", "tied": True},
    "q/k norm": {"positions": "none", "qk_norm": True},
} | {f"positions={kind}": {"positions": kind} for kind in parts("positions")}


def model(options: dict[str, Any]) -> GPT:
    return build_model(GPTConfig.model_validate(SHAPE | options), vocab_size=11, seed=1).eval().to(GPU)


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> list[Graph] | None:
    """Where there is no GPU, the processor plays its graphs."""
    return play_graphs(monkeypatch) if GPU.type == "cpu" else None


@pytest.mark.parametrize(
    ("name", "precision", "bound"),
    [
        *((name, "float32", 1e-5) for name in MODELS),
        *((name, "bfloat16", 0.02) for name in ("positions=learned", "rotary, one key head", "q/k norm")),
    ],
)
def test_reads_as_its_slow_twin(name: str, precision: Any, bound: float, played: list[Graph] | None) -> None:
    """Streams that come, slide, are copied and go at any time."""
    one = model(MODELS[name])
    fast, slow = RecordedDecoder(one, slots=3, precision=precision), FullDecoder(one, slots=3)
    random = np.random.default_rng(0)
    for _ in range(80):
        fed = {
            int(slot): random.integers(
                11, size=1 if random.random() < 0.9 else random.integers(1, 40)
            ).tolist()
            for slot in random.permutation(3)[: random.integers(1, 4)]
        }
        found, expected = fast.feed(fed), slow.feed(fed)
        assert (found - expected).abs().max() <= bound
        if random.random() < 0.05:
            slot = int(random.integers(3))
            for decoder in (fast, slow):
                decoder.free(slot)
                decoder.copy(0, [1, 2])
    assert played is None or sum(graph.replays for graph in played) > 40


class Asks(LearnedPositions):
    """Positions that know no way to give each row its own but to ask where they are."""

    at = Positions.at


def test_a_part_that_asks_the_processor_is_not_recorded(played: list[Graph] | None) -> None:
    one = model({})
    one.positions.__class__ = Asks
    fast, slow = RecordedDecoder(one, slots=2), FullDecoder(one, slots=2)
    for token in range(150):
        fed = {0: [token % 11], 1: [(3 * token) % 11]}
        assert (fast.feed(fed) - slow.feed(fed)).abs().max() <= 1e-5
    assert not played


def test_alone_and_among_others() -> None:
    """To the bit, where there are as many slots."""
    one = model({})
    alone, among = (RecordedDecoder(one, slots=4) for _ in range(2))
    for token in range(80):
        others = {slot: [(token * slot) % 11] for slot in range(4)}
        assert torch.equal(alone.feed({2: others[2]})[0], among.feed(others)[2])


@ON_A_GPU
def test_the_same_greedy_text_as_on_the_cpu() -> None:
    one, tokenizer = model({}), CharTokenizer("\n abcdefghi", documents=False, unknown=False)
    assert fastest_decoder(one) is RecordedDecoder
    texts = []
    for device in ("cuda", "cpu"):
        engine = Engine(one.to(device), tokenizer)
        texts.append(engine.samples("abc", tokens=200, sampling=Sampling(temperature=0))[0].text)
    assert texts[0] == texts[1]


@ON_A_GPU
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, top_k=4, repetition_penalty=1.2)])
def test_samples_repeat(sampling: Sampling) -> None:
    engine = Engine(model({}), CharTokenizer("\n abcdefghi", documents=False, unknown=False))
    first, second = (engine.samples("a", tokens=120, sampling=sampling, count=5, seed=3) for _ in range(2))
    assert [each.ids for each in first] == [each.ids for each in second]
    assert len({tuple(each.ids) for each in first}) == 5
