"""Steps on a log scale, their weights, and what a model makes of sentences at each."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
import torch

from octavo.errors import CheckpointError
from octavo.explain.timeline import chapter, probe, with_weights
from octavo.generation.sampling import Sampling
from octavo.training.checkpoint import chapters, keep_chapter, read_chapter, story_steps
from octavo.training.objective import NEXT_TOKEN
from unit.explain.subjects import TEXT, subject

ONE = subject(layers=2, heads=2, width=16)
IDS = ONE.tokenizer.encode(TEXT[:12])


@pytest.mark.parametrize(
    ("steps", "count", "wanted"),
    [(1000, 4, {1, 10, 100, 1000}), (3, 12, {1, 2, 3}), (50, 1, {50}), (50, 0, set()), (1, 3, {1})],
)
def test_steps_are_spread_over_a_log_scale(steps: int, count: int, wanted: set[int]) -> None:
    assert story_steps(steps, count) == wanted


def test_weights_are_kept_and_read_again(tmp_path: Path) -> None:
    weights = {"a": torch.randn(3, 4), "text": torch.arange(5)}
    for step in (100, 2):
        keep_chapter(tmp_path / "story", step, weights)
    (tmp_path / "story" / "notes.txt").write_text("mine")
    found = chapters(tmp_path / "story")
    assert [step for step, _ in found] == [2, 100]
    read = read_chapter(found[0][1])
    assert read.keys() == {"a"}  # what is counted, such as a text, stays out
    torch.testing.assert_close(read["a"], weights["a"].half().float(), rtol=0, atol=0)
    found[0][1].write_bytes(b"\x00" * 40)
    with pytest.raises(CheckpointError):
        read_chapter(found[0][1])


def test_a_probe_is_what_the_model_makes_of_a_sentence() -> None:
    found = probe(ONE.model, ONE.tokenizer, IDS)
    assert "".join(found["tokens"]) == TEXT[:12]
    weights = np.frombuffer(base64.b64decode(found["attention"]), np.uint8).reshape(2, 2, 12, 12) / 255
    np.testing.assert_allclose(weights.sum(-1), 1, atol=0.03)
    assert not np.triu(weights, 1).any()
    with torch.no_grad():
        last = ONE.model(torch.from_numpy(IDS)[None].long())[0].softmax(-1).max(-1)
    assert [name for name, _ in found["lens"][-1]] == [
        ONE.tokenizer.token_text(int(id)) for id in last.indices
    ]
    np.testing.assert_allclose([p for _, p in found["lens"][-1]], last.values, atol=1e-4)
    assert len(found["lens"]) == 3


def test_a_chapter_is_of_the_weights_of_its_step() -> None:
    batches = [batch.to(torch.device("cpu")) for batch in ONE.batches(100, 4)]

    def told() -> dict[str, object]:
        return chapter(
            ONE.model,
            ONE.tokenizer,
            5,
            sentences=[IDS, IDS],
            batches=batches,
            objective=NEXT_TOKEN,
            sampling=Sampling(temperature=0.0),
        )

    now = told()
    with with_weights(ONE.model, {"lm_head.weight": torch.zeros_like(ONE.model.lm_head.weight)}):
        blank = told()
    assert blank["loss"] == pytest.approx(np.log(ONE.tokenizer.vocab_size), rel=1e-5)
    assert told() == now != blank
