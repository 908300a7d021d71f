"""What an evaluation says of a text beside the model's own figures."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.config import Recipe, check
from octavo.data import Dataset
from octavo.model.base import build_model
from octavo.run.data import build_dataset
from octavo.run.evaluate import figures_of
from octavo.synthetic.storyteller import Storyteller
from octavo.task import EvaluationContext
from octavo.tasks.text.task import TextTask
from octavo.training.device import Runtime
from octavo.training.estimate import CPU
from octavo.util.terminal import Console


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Dataset]:
    recipe = check(
        {
            "corpus": {"kind": "storyteller", "seed": 3, "first": 10, "stories": 60},
            "tokenizer": "word",
            "split": "documents",
            "validation": 0.3,
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(tmp_path_factory.mktemp("cache")))
        return recipe, build_dataset(recipe, Console(quiet=True))


def test_the_sources_entropy_is_of_the_tokens_that_a_model_predicts(told: tuple[Recipe, Dataset]) -> None:
    """A bound per word would lie above what a model can reach, whose loss counts marks and ends as well."""
    recipe, dataset = told
    split = dataset.validation
    texts = set(split.text_path.read_text(encoding="utf-8").splitlines())
    teller = Storyteller(3)
    nats = -sum(teller.story(i).log_probability for i in range(10, 70) if teller.story(i).text in texts)
    predicted = int((np.asarray(split.tokens) != dataset.tokenizer.start).sum())
    assert len(texts) == split.documents > 5
    found = TextTask().floor(dataset, recipe)
    assert found is not None and found.loss == pytest.approx(nats / predicted, rel=1e-12)


@pytest.mark.parametrize(
    "change", [{"cleaning": ["case"]}, {"corpus": {"kind": "files", "paths": ["book.txt"]}}]
)
def test_other_texts_have_none(told: tuple[Recipe, Dataset], change: dict[str, object]) -> None:
    assert TextTask().floor(told[1], check(told[0].model_dump(mode="json") | change)) is None


def test_a_document_of_just_the_context_is_not_cut(told: tuple[Recipe, Dataset]) -> None:
    """Documents are cut that are longer than the context, not those that fill it."""
    recipe, dataset = told
    split = dataset.validation
    lengths = np.diff(np.append(split.starts.astype(np.int64), len(split.tokens)))
    context = int(np.sort(lengths)[len(lengths) // 2])
    assert (lengths == context).any() and (lengths > context).any()
    small = {"layers": 1, "width": 8, "heads": 1, "context": context}
    own = check(recipe.model_dump(mode="json") | {"model": small})
    model = build_model(own.model, vocab_size=dataset.tokenizer.vocab_size, seed=0)
    runtime, console = Runtime(CPU, "float32", 1), Console(quiet=True)
    judged = EvaluationContext(own, dataset.tokenizer, split, None, runtime, console)
    assert figures_of(model, judged, step=0).documents_cut == (lengths > context).sum() / split.documents
