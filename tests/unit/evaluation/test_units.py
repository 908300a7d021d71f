"""Units: the same stretches of text for every tokenizer, and sums that are the score of the whole split."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo.config import Recipe, check
from octavo.data import Dataset, Split, prepare
from octavo.evaluation import units as module
from octavo.evaluation.score import score
from octavo.evaluation.units import byte_offsets, unit_scores, units_of
from octavo.model.base import build_model
from octavo.run.data import evaluated_on
from octavo.tokenizers import with_special

STORIES = [
    f"Story {n}: the {'old ' * (n % 4)}fox saw a dög — “{n * n}”.\n\nThen it ran.\n" for n in range(120)
]


def dataset(
    folder: Path, documents: list[str], tokenizer: Any = "char", **settings: Any
) -> tuple[Dataset, Recipe]:
    """A dataset whose texts are the given ones."""
    path = folder / ("text.jsonl" if len(documents) > 1 else "text.txt")
    lines = [json.dumps({"text": document}) + "\n" for document in documents]
    path.write_text("".join(lines if len(documents) > 1 else documents), encoding="utf-8")
    recipe = check(
        {
            "corpus": {"kind": "files", "paths": [str(path)]},
            "tokenizer": tokenizer,
            "validation": 0.4,
            "model": {"layers": 1, "width": 8, "heads": 1, "context": 12},
            **settings,
        }
    )
    options = {"split": recipe.split, "validation": recipe.validation, "cache": folder / "cache"}
    return prepare(recipe.corpus.build(report=print), recipe.tokenizer, **options), recipe


@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize(
    "tokenizer", ["char", {"kind": "word", "unknown": "token"}, {"kind": "bpe", "size": 300}]
)
@pytest.mark.parametrize("batches", ["windows", "documents"])
def test_sums_are_the_score_of_the_split(tmp_path: Path, tokenizer: Any, batches: str, many: bool) -> None:
    documents = STORIES if many else ["".join(STORIES)]
    data, recipe = dataset(tmp_path, documents, tokenizer, batches=batches)
    split, tokenizer = data.validation, data.tokenizer
    torch.set_num_threads(1)
    model = build_model(recipe.model, vocab_size=tokenizer.vocab_size, seed=1)
    found = unit_scores(model, split, tokenizer, evaluated_on(split, recipe, tokenizer, rows=7))
    scored = recipe.batches.evaluation(
        split.tokens, split.starts, context=12, batch=64, start_id=tokenizer.start, end_id=tokenizer.end
    )
    whole = score(model, scored)
    assert found.total.total == pytest.approx(whole.total, rel=1e-5)
    assert (found.total.tokens, found.total.sums) == (whole.tokens, whole.sums)
    assert found.bytes.sum() == split.bytes
    assert len(found.losses) == len(found.tokens) > 30 and (found.tokens > 0).all()


def test_units_are_the_same_text_for_every_tokenizer(tmp_path: Path) -> None:
    for documents in (STORIES, ["".join(STORIES)]):
        sizes, texts = [], []
        for tokenizer in ("char", "byte", {"kind": "bpe", "size": 400}):
            folder = tmp_path / f"{len(documents)}-{len(sizes)}"
            folder.mkdir()
            data, _ = dataset(folder, documents, tokenizer)
            owner, size = units_of(data.validation, data.tokenizer)
            sizes.append(size.tolist())
            decoded = [
                data.tokenizer.decode(np.asarray(data.validation.tokens)[owner == unit]) for unit in (0, 7)
            ]
            texts.append([len(text.encode()) for text in decoded])
        assert sizes[0] == sizes[1] == sizes[2]
        # A token is never cut, so a byte-pair unit may be a few bytes longer or shorter.
        assert np.ptp(np.array(texts), axis=0).max() <= 12


def test_a_unit_of_documents_is_that_documents_own(tmp_path: Path) -> None:
    data, _ = dataset(tmp_path, STORIES)
    owner, size = units_of(data.validation, data.tokenizer)
    count = data.validation.documents
    assert len(size) == count >= 40
    for unit in (0, 11, count - 1):
        text = data.tokenizer.decode(np.asarray(data.validation.tokens)[owner == unit])
        assert text.rstrip() == STORIES[len(STORIES) - count + unit].rstrip()
        assert size[unit] == len(text.encode()) + 1  # and its line break


def test_many_documents_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = dataset(tmp_path, STORIES)
    single = units_of(data.validation, data.tokenizer)[1]
    monkeypatch.setattr(module, "MOST", 10)
    owner, size = units_of(data.validation, data.tokenizer)
    edges = np.arange(10) * len(single) // 10
    assert size.tolist() == np.add.reduceat(single, edges).tolist()
    assert set(owner.tolist()) == set(range(10))


def test_a_tokenizer_that_loses_text_has_offsets_all_the_same(tmp_path: Path) -> None:
    data, _ = dataset(tmp_path, ["".join(STORIES)], {"kind": "word", "unknown": "token"})
    begins = byte_offsets(data.validation, data.tokenizer)
    assert (np.diff(begins) >= 0).all() and begins[0] == 0
    assert 0.9 * data.validation.bytes < begins[-1] < data.validation.bytes


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=50))
def test_offsets_of_any_text(documents: list[str]) -> None:
    tokenizer = check({"tokenizer": "byte"}).tokenizer.build(lambda: iter(()), documents=len(documents) > 1)
    several = len(documents) > 1
    encoded = [
        tokenizer.encode_document(document) if several else tokenizer.encode(document)
        for document in documents
    ]
    lengths = [len(document.encode()) + several for document in documents]
    ends = np.cumsum([len(ids) for ids in encoded])
    split = Split(
        tokens=np.concatenate(encoded), starts=(ends - [len(ids) for ids in encoded]).astype(np.uint64),
        bytes=sum(lengths), characters=0, documents=len(documents), text_file=Path(),
    )  # fmt: skip
    begins = byte_offsets(split, tokenizer)
    content = b"".join(document.encode() + b"\n" * several for document in documents)
    # Every byte of a character begins where the character does.
    assert np.unique(begins).tolist() == [place for place, byte in enumerate(content) if byte & 0xC0 != 0x80]
    owner, size = units_of(split, tokenizer)
    assert size.sum() == split.bytes and (np.diff(owner) >= 0).all() and owner.max() < len(size)


def test_special_tokens_have_no_bytes(tmp_path: Path) -> None:
    """A token that is no text begins where the next one does, costs its loss, and no byte."""
    data, _ = dataset(tmp_path, STORIES)
    plain, ids = data.validation, np.asarray(data.validation.tokens).astype(np.int64)
    tokenizer = with_special(data.tokenizer, ["<|user|>"])
    places = np.sort(np.random.default_rng(1).choice(len(ids), 50, replace=False))
    mixed = np.insert(ids, places, tokenizer.special["<|user|>"])
    starts = plain.starts + np.searchsorted(places, plain.starts, side="left").astype(np.uint64)
    split = dataclasses.replace(plain, tokens=mixed, starts=starts)
    added = np.flatnonzero(mixed == tokenizer.special["<|user|>"])
    begins = byte_offsets(split, tokenizer)
    np.testing.assert_array_equal(np.delete(begins, added), byte_offsets(plain, data.tokenizer))
    np.testing.assert_array_equal(begins[added], begins[added + 1])
    owner, size = units_of(split, tokenizer)
    np.testing.assert_array_equal(size, units_of(plain, data.tokenizer)[1])
    assert size.sum() == plain.bytes and owner.max() < len(size)


def test_scoring_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    data, recipe = dataset(tmp_path, STORIES)
    model = build_model(recipe.model, vocab_size=data.tokenizer.vocab_size, seed=1).train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    batches = evaluated_on(data.validation, recipe, data.tokenizer, rows=7)
    unit_scores(model, data.validation, data.tokenizer, batches)
    assert model.training
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
