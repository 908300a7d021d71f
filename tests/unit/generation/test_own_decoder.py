"""The decoder of docs/extending.md writes through the engine: several texts, more than slots, to the bit alone."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import torch

from guards.common import ROOT
from guards.snippets import blocks
from octavo.config.parts import parts
from octavo.generation import Engine, Sample, Sampling, TextRequest, in_order
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT

GREEDY = Sampling(temperature=0)
PROMPTS = ["", "the", "the small bird sees"]


def walk_through() -> ModuleType:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = next(block.text for block in blocks(page) if "Nearsighted" in block.text)
    module = ModuleType("nearsighted")
    exec(compile(code, "docs/extending.md", "exec"), vars(module))
    return module


def run() -> SimpleNamespace:
    tokenizer = parts("tokenizer")["char"]().build(
        lambda: iter(["the small bird sees a big tree."]), documents=True
    )
    options = {"layers": 2, "width": 16, "heads": 2, "context": 16, "positions": "rotary"}
    config = GPTConfig.model_validate(options | {"initialization": {"kind": "normal", "std": 0.4}})
    model = build_model(config, vocab_size=tokenizer.vocab_size, seed=3)
    return SimpleNamespace(model=model, tokenizer=tokenizer)


@torch.no_grad()
def by_hand(model: GPT, ids: list[int], tokens: int, end: int | None) -> list[int]:
    written: list[int] = []
    while len(written) < tokens and (not written or written[-1] != end):
        written.append(int(model(torch.tensor([(ids + written)[-4:]]))[0, -1].argmax()))
    return written


def texts(samples: list[Sample]) -> list[tuple[list[int], list[float], str]]:
    return [(sample.ids, sample.log_probabilities, sample.text) for sample in samples]


def test_it_writes_what_the_model_expects_after_the_last_four_ids() -> None:
    own, toy = walk_through(), run()
    engine = Engine(toy.model, toy.tokenizer)
    for prompt in PROMPTS:
        *_, (sample, _) = engine.write_each(
            [TextRequest(prompt)], tokens=40, sampling=GREEDY, decoder=own.Nearsighted
        )
        expected = by_hand(toy.model, engine.prompt_ids(prompt), 40, toy.tokenizer.end)
        assert sample.ids == expected


def test_it_writes_many_texts_in_few_slots_as_it_writes_each_alone() -> None:
    own, toy = walk_through(), run()
    engine = Engine(toy.model, toy.tokenizer)
    asked = [TextRequest(prompt, seed=seed) for prompt in PROMPTS for seed in range(4)]
    alone = [
        in_order(
            s for s, _ in engine.write_each([one], tokens=30, sampling=Sampling(), decoder=own.Nearsighted)
        )
        for one in asked
    ]
    for slots in (2, 5, None):
        written = engine.write_each(
            asked, tokens=30, sampling=Sampling(), slots=slots, decoder=own.Nearsighted
        )
        assert texts(in_order(s for s, _ in written)) == [text for one in alone for text in texts(one)]
    shown = own.nearsighted(toy, PROMPTS, 30)
    assert texts(shown) == [text for one in alone[::4] for text in texts(one)]
