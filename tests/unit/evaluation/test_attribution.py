"""Who predicted a token: both sides, as they went into the model's own prediction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from octavo.data.batch import Batch
from octavo.data.batches import with_earlier
from octavo.evaluation.attribution import Credit, credit, sentence
from octavo.report.sections import of_counted, piece
from octavo.tokenizers.char import CharTokenizer
from octavo.training.objective import NEXT_TOKEN
from octavo.util.records import plain
from unit.ngram.test_mixture import K, held, model, text

T = 16


@pytest.fixture(scope="module")
def batches() -> list[Batch[np.ndarray]]:
    """Rows of another text, the second before the first, and an end that is shorter."""
    tokens, rows = text(3 * T + 6, seed=2).astype(np.int64), []
    for begin in (T, 0, 2 * T):
        places = np.arange(begin + 1, begin + T + 1)
        there = places < 2 * T + 6 if begin == 2 * T else np.ones(T, bool)
        targets = np.where(there, tokens[places], -1)
        where = np.where(there, places, -1)
        rows.append(Batch(tokens[None, begin : begin + T], targets[None], places=where[None]))
    return list(with_earlier(iter(rows), tokens, K - 1))


@pytest.fixture(scope="module")
def found(batches: list[Batch[np.ndarray]]) -> Credit:
    counting = model()
    counting.take_text(text(), held())
    with torch.no_grad():
        counting.counts.out.weight.normal_(0, 0.5, generator=torch.Generator().manual_seed(0))
    own = credit(counting, batches, NEXT_TOKEN)
    assert own is not None
    probabilities, order = [], []
    for batch in batches:
        there = batch.targets >= 0
        losses = NEXT_TOKEN.evaluate(counting.eval(), batch.to("cpu")).losses.detach().numpy()
        probabilities.append(np.exp(-losses[there]))
        assert batch.places is not None
        order.append(batch.places[there])
    sorted_by = np.argsort(np.concatenate(order))
    np.testing.assert_allclose(own.mixture, np.concatenate(probabilities)[sorted_by], rtol=1e-5)
    network = model(counts="none")
    network.load_state_dict(counting.state_dict(), strict=False)
    alone = [
        np.exp(-NEXT_TOKEN.evaluate(network.eval(), batch.to("cpu")).losses.detach().numpy())[
            batch.targets >= 0
        ]
        for batch in (Batch(one.inputs, one.targets) for one in batches)
    ]
    np.testing.assert_allclose(own.network, np.concatenate(alone)[sorted_by], rtol=1e-5)
    return own


def test_both_sides_make_the_models_own_prediction_in_the_order_of_the_text(found: Credit) -> None:
    assert len(found.tokens) == 2 * T + 5
    assert found.tokens.tolist() == text(3 * T + 6, seed=2)[1 : 2 * T + 6].tolist()
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-5)
    assert found.weights.shape == (len(found.tokens), K + 1)


def test_the_figures_follow_from_the_tokens() -> None:
    weights = np.array([[0.5, 0.25, 0.25], [0.2, 0.8, 0.0]])
    probabilities = np.array([[0.4, 0.1, 0.3], [0.1, 0.9, 0.5]])
    credit = Credit(weights, probabilities, np.array([0, 1]), np.array([1, 2]))
    tree = plain(credit.attribution(CharTokenizer("ab", documents=False, unknown=False)))
    assert tree["counting_better"] == 0.5  # 0.2 against 0.4, 0.9 against 0.1
    assert tree["trust_in_counting"] == pytest.approx(0.65)
    assert tree["network_loss"] == pytest.approx(-(math.log(0.4) + math.log(0.1)) / 2)
    assert tree["counting_loss"] == pytest.approx(-(math.log(0.2) + math.log(0.9)) / 2)
    assert tree["loss"] == pytest.approx(-(math.log(0.3) + math.log(0.74)) / 2)
    assert [side["best"] for side in tree["sides"]] == [0.5, 0.5, 0.0]
    assert [side["trust"] for side in tree["sides"]] == pytest.approx([0.35, 0.525, 0.125])
    assert tree["sample"] == [["a", pytest.approx(math.log(0.5))], ["b", pytest.approx(math.log(9))]]
    assert "Counting has 65% of the weight, and gave 50% of the tokens" in sentence(tree)
    assert sentence({**tree, "trust_in_counting": 1.0}).startswith("Counting made every prediction, and gave")
    page = of_counted({"counted": tree})
    assert [row.name for row in page["sides"]] == ["the network", "1-grams", "2-grams"]
    assert [one.side for one in page["pieces"]] == ["network", "counting"]


def test_only_what_stands_side_by_side_is_shown_as_a_text() -> None:
    weights, probabilities = np.full((5, 2), 0.5), np.full((5, 2), 0.1)
    apart = Credit(weights, probabilities, np.array([0, 1, 0, 1, 1]), np.array([4, 5, 7, 40, 41]))
    found = apart.attribution(CharTokenizer("ab", documents=False, unknown=False))
    assert found.tokens == 5 and [piece for piece, _ in found.sample] == ["a", "b", "a"]


def test_a_model_that_does_not_count_has_no_such_figures(batches: list[Batch[np.ndarray]]) -> None:
    assert credit(model(counts="none"), batches, NEXT_TOKEN) is None
    assert credit(model(), batches, NEXT_TOKEN) is None  # no text was taken
    assert of_counted({})["counted"] is None


def test_a_lead_beyond_all_measure_can_be_written() -> None:
    assert piece("x", 69.0).lead == "counting gives it over 1,000 times as much"
    assert piece("x", -69.0).strength == 100
