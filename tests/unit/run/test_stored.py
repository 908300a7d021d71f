"""A run's own files hold the shapes that they are read back by; damaged ones do not pass."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from octavo.evaluation.baselines import baselines
from octavo.evaluation.stored import Baselines, Evaluation, Row
from octavo.util.records import parse_json


def test_baselines_of_a_dataset_pass_and_what_lacks_a_figure_does_not(tmp_path: Path) -> None:
    for name in ("train", "validation"):
        (tmp_path / name).write_text("abab" * 25)
    tokens = np.array([0, 1] * 50, np.uint8)
    texts = {"train_text": tmp_path / "train", "validation_text": tmp_path / "validation"}
    found = baselines(tokens, tokens, vocab_size=2, validation_bytes=100, **texts)
    tree = {name: one.as_dict() for name, one in found.items()}
    assert parse_json(json.dumps(tree), Baselines) == tree
    for name, one in tree.items():
        for key in one.keys() - {"train_tokens"}:
            wrong = {**tree, name: {other: value for other, value in one.items() if other != key}}
            with pytest.raises(ValueError, match=key):
                parse_json(json.dumps(wrong), Baselines)
        with pytest.raises(ValueError, match=name):
            parse_json(json.dumps({**tree, name: None}), Baselines)
    with pytest.raises(ValueError, match="more"):
        parse_json(json.dumps({**tree, "more": None}), Baselines)


@pytest.mark.parametrize(
    "row",
    [
        '{"event": "train", "step": 1, "loss": 2.5}',
        '{"event": "validation", "step": 1, "loss": 2.5}',
        '{"event": "validation", "step": 1.5, "loss": 2.5, "bits_per_byte": 1.0}',
        '{"event": "validation", "step": 1, "loss": "2.5", "bits_per_byte": 1.0}',
        '{"event": "validation", "step": 1, "loss": NaN, "bits_per_byte": 1.0}',
        '{"step": 1, "loss": 2.5, "bits_per_byte": 1.0}',
    ],
)
def test_rows_without_their_figures_do_not_pass(row: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(row, Row)


@pytest.mark.parametrize(
    "evaluation",
    [
        '{"diagnostics": null}',
        '{"diagnostics": [{"kind": "x"}]}',
        '{"verdict": [5]}',
        '{"baselines": {"unigram": null}}',
        '{"memorization": {"generated": {"shares": {"10": 0.5}}, "held_out": {"shares": {}}}}',
        '{"memorization": {"generated": {"shares": {"x": 0.5}}, "held_out": {"shares": {"x": 0.5}}}}',
        '{"diversity": {"unit": "word"}}',
    ],
)
def test_evaluations_of_other_shapes_do_not_pass(evaluation: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(evaluation, Evaluation)
