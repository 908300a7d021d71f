"""Verdicts: what was planted in a curve is found, and what was not is not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.config import check, parse_yaml, recipe_text
from octavo.evaluation.diagnostics import Diagnostic, Facts, diagnose
from octavo.evaluation.learning_curve import Curve
from octavo.tasks.forecast.task import ForecastTask

PLAIN = check({})
BASELINES = {
    "uniform": {"loss": 4.17, "bits_per_byte": 6.0},
    "unigram": {"loss": 3.3, "bits_per_byte": 4.8},
    "bigram": {"loss": 2.5, "bits_per_byte": 3.6},
    "ngram": {"loss": 1.6, "bits_per_byte": 2.3, "order": 5},
    "gzip": {"loss": None, "bits_per_byte": 3.3},
    "xz": {"loss": None, "bits_per_byte": 3.1},
}


def rows(event: str, steps: np.ndarray, losses: np.ndarray, **more: Any) -> list[dict[str, Any]]:
    return [
        {"event": event, "step": int(step), "loss": float(loss), **more}
        for step, loss in zip(steps, losses, strict=True)
    ]


def facts(
    found: list[dict[str, Any]], *, recipe: dict[str, Any] | None = None, tokens: int = 1_000_000, **more: Any
) -> Facts:
    steps = max((row["step"] for row in found), default=1)
    return Facts(
        recipe=check(recipe) if recipe else PLAIN,
        steps=steps,
        vocab_size=65,
        train_tokens=tokens,
        rows=found,
        **more,
    )


def kinds(given: Facts) -> dict[str, Diagnostic]:
    return {diagnostic.kind: diagnostic for diagnostic in diagnose(given)}


def power_law(steps: np.ndarray, floor: float, rate: float) -> np.ndarray:
    return floor + 3.0 * (1 + steps / 50.0) ** -rate


EVALUATED = np.arange(1, 41) * 50
LOGGED = np.arange(1, 201) * 10


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(2, 60),
    rate=st.floats(0.2, 0.8),
    noise=st.floats(0, 0.008),
    floor=st.floats(0.8, 2),
)
@settings(max_examples=100)
def test_a_falling_curve_is_never_called_over_fit(
    seed: int, count: int, rate: float, noise: float, floor: float
) -> None:
    rng = np.random.default_rng(seed)
    steps = np.arange(1, count + 1) * 50
    validation = power_law(steps, floor, rate) * (1 + noise * rng.standard_normal(count))
    logged = np.arange(1, 5 * count + 1) * 10
    training = power_law(logged, floor - 0.1, rate) * (1 + 0.03 * rng.standard_normal(len(logged)))
    found = kinds(facts(rows("train", logged, training) + rows("validation", steps, validation)))
    assert not {"over-fit", "too large", "diverged"} & set(found)


@given(
    seed=st.integers(0, 10_000),
    turn=st.integers(4, 30),
    rise=st.floats(0.1, 1.0),
    noise=st.floats(0, 0.006),
)
@settings(max_examples=100)
def test_a_planted_turn_is_found_at_its_step(seed: int, turn: int, rise: float, noise: float) -> None:
    rng = np.random.default_rng(seed)
    at = EVALUATED[turn]
    before = power_law(EVALUATED, 1.4, 0.6)
    after = before[turn] + rise * (EVALUATED - at) / (EVALUATED[-1] - at)
    validation = np.where(at >= EVALUATED, before, after) * (1 + noise * rng.standard_normal(len(EVALUATED)))
    training = power_law(LOGGED, 0.3, 0.5) * (1 + 0.02 * rng.standard_normal(len(LOGGED)))
    given_rows = rows("train", LOGGED, training) + rows("validation", EVALUATED, validation)
    diagnostic = kinds(facts(given_rows))["over-fit"]
    best = int(validation.argmin())
    assert diagnostic.evidence["best_step"] == EVALUATED[best]
    assert diagnostic.evidence["best_loss"] == validation[best]
    assert (
        f"step {EVALUATED[best]:,}" in diagnostic.sentence
        and f"{validation[best]:.4f}" in diagnostic.sentence
    )
    # As far from the planted turn as the noise can hide the rise and the fall, no farther.
    assert (before if best <= turn else after)[best] <= before[turn] * (1 + 8 * noise) + 1e-9
    assert "learning" not in kinds(facts(given_rows))


@given(seed=st.integers(0, 10_000), noise=st.floats(0.0005, 0.005))
def test_a_level_end_is_a_plateau_and_a_falling_one_is_learning(seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    scatter = 1 + noise * rng.standard_normal(len(EVALUATED))
    level = np.where(EVALUATED < 800, 2.0 + (800 - EVALUATED) / 800, 2.0)
    assert "learning" not in kinds(facts(rows("validation", EVALUATED, level * scatter)))
    falling = kinds(facts(rows("validation", EVALUATED, (3.0 - EVALUATED / 2000) * scatter)))["learning"]
    assert falling.evidence["fall_per_1000_steps"] == pytest.approx(0.5, abs=0.3)
    assert falling.settings == ("training.steps=4000",)
    learning = rows("validation", EVALUATED, (3.0 - EVALUATED / 2000) * scatter)
    for seen, wanted in (
        (5.9, ("training.steps=4000",)),
        (6.1, ("training.steps=4000", "training.passes=24")),
        (12.0, ("training.steps=4000", "training.passes=24")),
    ):  # a limit of passes that twice the steps stay below is left alone
        found = facts(learning, recipe={"training": {"passes": 12}})
        trained = {"event": "train", "step": 2000, "loss": 2.0, "tokens": seen * found.train_tokens}
        found = dataclasses.replace(found, rows=[*learning, trained])
        assert kinds(found)["learning"].settings == wanted


def test_a_plateau_says_when_the_learning_rate_made_it() -> None:
    level = np.full(len(EVALUATED), 2.0)
    flat = rows("validation", EVALUATED, level)
    rates = np.linspace(1e-3, 1e-5, len(LOGGED))
    trained = rows("train", LOGGED, np.full(len(LOGGED), 2.0))
    sinking = [{**row, "learning_rate": rate} for row, rate in zip(trained, rates, strict=True)]
    assert kinds(facts(flat + sinking))["plateau"].settings == ("training.steps=4000",)
    steady = [{**row, "learning_rate": 1e-3} for row in trained]
    assert any(
        option.startswith("model.width=") for option in kinds(facts(flat + steady))["plateau"].settings
    )


def test_two_evaluations_are_too_few_and_it_says_so() -> None:
    diagnostic = kinds(facts(rows("validation", np.array([100, 200]), np.array([3.0, 2.5]))))["unclear"]
    assert diagnostic.settings == ("training.steps=400", "evaluation.every=0.05")


def test_nothing_is_judged_where_there_is_nothing() -> None:
    assert diagnose(facts([])) == []


def test_divergence_names_a_smaller_learning_rate() -> None:
    broken = facts(rows("train", LOGGED[:3], np.full(3, 3.0)), diverged="Step 4 diverged: the loss is nan.")
    diagnostic = diagnose(broken)[0]
    assert (diagnostic.kind, diagnostic.severity) == ("diverged", "bad")
    assert diagnostic.settings == ("training.optimizer.learning_rate=0.000333",)
    risen = np.concatenate([np.linspace(4, 2, 100), np.full(100, 3.5)])
    assert "diverged" in kinds(facts(rows("train", LOGGED, risen)))


def over_fitting() -> list[dict[str, Any]]:
    validation = np.where(EVALUATED < 1000, 3 - EVALUATED / 1000, 2 + (EVALUATED - 1000) / 1000)
    return rows("train", LOGGED, 3 - LOGGED / 800) + rows("validation", EVALUATED, validation)


def test_report_e_table_1_is_too_large_for_the_script_and_gets_a_model_like_table_2() -> None:
    recipe = parse_yaml(recipe_text("shakespeare-char-cpu"), "recipe")
    recipe["model"] = {
        "layers": 8, "heads": 8, "width": 384, "context": 256, "dropout": 0.3, "head_bias": True,
        "feed_forward": {"kind": "relu", "width": 1536},
    }  # fmt: skip
    script = facts(over_fitting(), recipe=recipe, tokens=110_000, evaluation={"parameters": 14_335_553})
    diagnostic = kinds(script)["too large"]
    assert 1_000_000 < diagnostic.evidence["suitable_parameters"] <= 20 * 110_000
    changed = dict(option.split("=") for option in diagnostic.settings)
    assert {"model.layers", "model.width", "model.feed_forward.width"} <= set(changed)
    # The settings give what they promise.
    from octavo.config import apply_override

    for option in diagnostic.settings:
        apply_override(recipe, option)
    counted = check(recipe).model.parameters(vocab_size=65)
    assert counted == diagnostic.evidence["suitable_parameters"]


def test_a_model_of_fitting_size_is_not_called_too_large() -> None:
    found = kinds(facts(over_fitting(), tokens=1_000_000, evaluation={"parameters": 800_000}))
    assert "over-fit" in found and "too large" not in found


def test_a_vocabulary_too_large_for_any_model_is_said() -> None:
    large = Facts(
        recipe=check({}), steps=2000, vocab_size=50_257, train_tokens=1000, rows=over_fitting(),
        evaluation={"parameters": 10_000_000},
    )  # fmt: skip
    assert "smaller vocabulary" in kinds(large)["too large"].remedy


@pytest.mark.parametrize(
    ("loss", "bits", "words", "weight"),
    [
        (4.5, 6.5, "points to a bug", "bad"),
        (3.6, 5.2, "(unigram)", "bad"),
        (2.9, 4.2, "(bigram)", "bad"),
        (2.0, 2.9, "5-grams", "bad"),
        (1.5, 3.2, "xz needs fewer bits", "note"),
        (1.5, 2.2, "Not a bug, and not untrained", "good"),
    ],
)
def test_garbage_is_placed_between_the_baselines(loss: float, bits: float, words: str, weight: str) -> None:
    known = {"val_loss": loss, "bits_per_byte": bits, "baselines": BASELINES}
    diagnostic = kinds(facts([], evaluation=known))["baselines"]
    assert words in diagnostic.sentence
    assert diagnostic.severity == weight


def counted(together: float, counting: float, network: float) -> dict[str, Any]:
    """An evaluation of a model with counts: together it is below all that counts and packs."""
    orders = {0: network, 1: 3.3, 2: 2.5, 3: 1.7, None: 4.0}
    return {
        "val_loss": together,
        "bits_per_byte": 2.2,
        "baselines": BASELINES,
        "counted": {
            "loss": together,
            "counting_loss": counting,
            "network_loss": network,
            "sides": [{"order": order, "loss": loss} for order, loss in orders.items()],
        },
    }


@pytest.mark.parametrize(
    ("together", "counting", "network", "words"),
    [
        (1.5, 1.5, 4.1, "The network alone has 4.100, more than counting unigrams (3.300)"),
        (1.49, 1.5, 2.9, "The network alone has 2.900, more than counting bigrams (2.500)"),
        (1.3, 1.5, 3.4, "more than counting unigrams"),  # the text so far helped, not the network
        (1.499, 1.5, 1.9, "The network alone has 1.900: it has learned too little to help"),
    ],
)
def test_a_network_that_adds_nothing_to_counting_is_not_called_trained(
    together: float, counting: float, network: float, words: str
) -> None:
    """An untrained one was once called "not a bug, and not untrained", for the mixture is below every n-gram."""
    curve = rows("validation", EVALUATED, np.full(len(EVALUATED), together))
    first, *_ = diagnose(facts(curve, evaluation=counted(together, counting, network)))
    assert first.kind == "baselines" and first.sentence.startswith(
        "Counting does all of it: alone it has 1.500"
    )
    assert words in first.sentence and first.severity == "bad" and first.remedy == "train longer"


@pytest.mark.parametrize(("together", "counting", "network"), [(1.3, 1.5, 1.6), (1.4, 2.0, 1.41)])
def test_a_network_that_adds_to_counting_is_trained(together: float, counting: float, network: float) -> None:
    found = kinds(facts([], evaluation=counted(together, counting, network)))["baselines"]
    assert found.sentence.startswith("Not a bug, and not untrained") and found.severity == "good"


RL = {"objective": {"kind": "policy-gradient", "reward": "length"}, "training": {"start_from": "runs/base"}}


@pytest.mark.parametrize("recipe", [RL, {"training": {"start_from": "runs/base"}}])
def test_a_tuned_run_is_judged_against_its_base(recipe: dict[str, Any]) -> None:
    """After RL the page once said "garbage here is too little training or a bug": the tuning had raised the loss."""

    def found(loss: float, start: float) -> Diagnostic:
        known = BASELINES | {"start": {"loss": start, "bits_per_byte": start}}
        evaluation = {"val_loss": loss, "bits_per_byte": loss, "baselines": known}
        diagnostics = diagnose(facts([], recipe=recipe, evaluation=evaluation))
        assert "Garbage" not in " ".join(one.sentence for one in diagnostics)
        return diagnostics[0]

    further = found(2.9, 1.9)
    assert further.sentence.startswith(
        "Worse than what it started from: 2.9000 nats per token on the validation split, 1.9000 before; it knows"
    )
    assert further.severity == "bad" and "learning rate" in further.remedy and "longer" not in further.remedy
    assert ("objective.beta" in further.remedy) is (recipe is RL)
    assert further.evidence["start"] == 1.9 and further.settings[0].startswith(
        "training.optimizer.learning_rate="
    )
    assert found(1.55, 1.5).severity == ("note" if recipe is RL else "bad")
    corpus = {"kind": "files", "paths": ["pairs.jsonl"], "records": {"kind": "preferences"}}
    dpo = {"objective": "dpo", "corpus": corpus, "batches": "preferences", "split": "prompts"}
    dpo |= {"training": RL["training"]}
    known = {"coin": {"loss": 0.693}, "start": {"loss": 0.6}}
    (worse,) = diagnose(facts([], recipe=dpo, evaluation={"val_loss": 0.65, "baselines": known}))
    assert "than what it started from" in worse.sentence and "longer" not in worse.remedy
    better = found(2.9, 3.2)
    assert better.sentence.startswith("Better than what it started from: ") and better.severity == "note"
    assert found(1.4, 1.5).severity == found(1.5, 1.501).severity == "good"
    assert found(1.5, 1.501).sentence.startswith("As good as what it started from")


@pytest.mark.parametrize("loss", [3.31, 3.28])
@pytest.mark.parametrize("course", ["level", "over-fit", "still falling", "diverged"])
def test_of_random_letters_there_is_nothing_to_learn(loss: float, course: str) -> None:
    """They were once called garbage of too little training, and a longer one was advised."""
    ends = {"level": loss, "over-fit": 4.0, "still falling": 0.9 * loss, "diverged": loss}
    found = rows("validation", EVALUATED, np.linspace(loss, ends[course], len(EVALUATED)))
    if course == "diverged":
        found += rows("train", LOGGED, np.linspace(loss, 2 * loss, len(LOGGED)))
    noise = BASELINES | {"ngram": {"loss": 3.3, "bits_per_byte": 4.8, "order": 1}}
    first, *others = diagnose(facts(found, evaluation={"val_loss": loss, "baselines": noise}))
    assert (first.kind == "nothing to learn") is (course != "diverged")
    said = " ".join(one.sentence for one in (first, *others))
    assert "no token of this text tells what comes after it" in said
    assert "Garbage" not in said and "Under-fit" not in said
    assert course == "diverged" or (first.remedy and not first.settings), "no command would help"
    far = diagnose(facts(found, evaluation={"val_loss": 3.0, "baselines": noise}))
    assert "nothing to learn" not in {one.kind for one in far}, "it learned what n-grams do not see"


@pytest.mark.parametrize("loss", [9.9, 3.0, 2.6, 2.2])
def test_another_text_is_not_blamed_on_the_training(loss: float) -> None:
    baselines = {
        name: {"loss": level, "bits_per_byte": level}
        for name, level in {"uniform": 4.0, "unigram": 2.9, "bigram": 2.5, "ngram": 2.3, "gzip": 1.0}.items()
    }
    evaluation = {"val_loss": loss, "bits_per_byte": loss, "baselines": baselines}
    (found,) = diagnose(Facts(PLAIN, 100, 65, 1000, evaluation=evaluation, elsewhere=True))
    assert not found.settings and "bug" not in found.sentence + found.remedy
    assert found.sentence.startswith(
        "On this text it" if loss > 2.3 else "Below every n-gram, yet gzip needs"
    )


def test_what_is_all_but_known_neither_diverges_nor_is_over_fitted() -> None:
    steps = np.arange(1, 101) * 10
    losses = np.maximum(5.0 * 0.8 ** np.arange(100), 2e-6)
    losses[60:] = np.linspace(2e-6, 1e-4, 40)
    found = kinds(facts(rows("train", steps, losses) + rows("validation", steps[::5], 10 * losses[::5])))
    assert not {"diverged", "unsteady", "over-fit"} & set(found)


def test_a_training_loss_that_rose_a_little_is_not_said_to_have_fallen() -> None:
    steps = np.arange(1, 41) * 10
    valid = np.concatenate([np.linspace(4, 1, 20), np.linspace(1, 2, 20)])
    noisy = 0.02 * np.random.default_rng(0).standard_normal(40)
    for slope, word in ((0.05, "rose"), (-0.5, "fell")):
        level = np.concatenate([np.linspace(4, 0.5, 20), 0.5 + np.linspace(0, slope, 20)]) + noisy
        found = kinds(facts(rows("train", steps, level) + rows("validation", steps, valid)))
        assert f"the training loss {word} from" in found["over-fit"].sentence


def test_garbage_of_an_over_fitted_model_is_not_called_too_little_training() -> None:
    known = {"val_loss": 2.0, "bits_per_byte": 2.9, "baselines": BASELINES}
    first, *evidence = diagnose(facts(over_fitting(), evaluation=known))
    assert first.kind == "over-fit" and first.settings == ("model.dropout=0.2",)
    assert "over-fitting" in next(one for one in evidence if one.kind == "baselines").sentence


def test_under_fit_needs_a_training_loss_above_the_n_gram_too() -> None:
    known = {"val_loss": 2.0, "bits_per_byte": 2.9, "baselines": BASELINES}
    poor = rows("train", LOGGED, 2.2 + 100 / LOGGED)
    assert "under-fit" in kinds(facts(poor, evaluation=known))
    heart = rows("train", LOGGED, 1.0 + 100 / LOGGED)
    assert "under-fit" not in kinds(facts(heart, evaluation=known))
    taught = {"training": {"teachers": {"trained": 1}}}
    assert "under-fit" not in kinds(facts(poor, evaluation=known, recipe=taught)), (
        "it is no loss of the text alone"
    )


def test_a_curve_keeps_the_last_of_a_step_and_no_infinities() -> None:
    steps = np.array([10, 20, 20, 30])
    curve = Curve.of(rows("train", steps, np.array([4.0, 9.0, 3.0, np.nan])), "train")
    assert curve.losses.tolist() == [4.0, 3.0]
    assert curve.steps.tolist() == [10, 20]


def test_the_noise_of_a_curve_is_that_of_its_values() -> None:
    rng = np.random.default_rng(0)
    steps = np.arange(400.0)
    noisy = Curve(steps, 3 - steps / 400 + 0.02 * rng.standard_normal(400))
    assert noisy.noise == pytest.approx(0.02, rel=0.2)
    trend = noisy.trend()
    assert trend is not None and abs(trend.slope + 1 / 400) < 4 * trend.error


@pytest.mark.parametrize(
    ("every", "settings"), [(250, ("evaluation.every=0.05",)), (0.1, ("evaluation.every=0.05",)), (0.05, ())]
)
def test_evaluating_more_often_is_never_what_the_run_did(every: float, settings: tuple[str, ...]) -> None:
    few = facts(rows("train", np.array([400]), np.array([2.0])), recipe={"evaluation": {"every": every}})
    assert few.closer == settings


SAYS = {
    "Still learning": {"learning"},
    "topped improving": {"plateau"},
    "Plateau": {"plateau"},
    "too noisy to say": {"unclear"},
    "Too few figures": {"unclear"},
    "ver-fit": {"over-fit"},
    "Too large": {"over-fit"},
    "came apart": {"diverged", "unsteady"},
    "too little training": {"learning", "plateau", "unclear", "over-fit"},
    "train longer": {"learning", "plateau", "unclear"},
}
"""Words, and the courses of a run beside which they contradict nothing."""


@given(
    seed=st.integers(0, 10_000),
    evaluated=st.integers(0, 30),
    fall=st.floats(0.0, 2.0),
    bend=st.floats(0.1, 1.5),
    turn=st.floats(0.2, 1.5),
    rise=st.floats(0.0, 1.5),
    rises_too=st.booleans(),
    noise=st.sampled_from([0.0, 0.002, 0.01, 0.05, 0.2]),
    loss=st.floats(0.5, 5.0),
    decay=st.floats(0.0, 1.0),
    parameters=st.sampled_from([10_000, 10_000_000]),
    recites=st.booleans(),
)
@settings(max_examples=200)
def test_no_finding_contradicts_another_whatever_the_curve(
    seed: int, evaluated: int, fall: float, bend: float, turn: float, rise: float, rises_too: bool,
    noise: float, loss: float, decay: float, parameters: int, recites: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)

    def curve(steps: np.ndarray, rising: bool) -> np.ndarray:
        at = steps / 2000
        level = 1 + fall * (1 - at.clip(0, turn)) ** (1 / bend) + rising * rise * (at - turn).clip(0)
        return level * (1 + noise * rng.standard_normal(len(steps)))

    steps = np.linspace(2000 / max(1, evaluated), 2000, evaluated).round()
    trained = rows("train", LOGGED, curve(LOGGED, rises_too))
    found = [
        {**row, "learning_rate": 1e-3 * (1 - decay * row["step"] / 2000), "tokens": 100 * row["step"]}
        for row in trained
    ] + rows("validation", steps, curve(steps, True))
    share = {"characters": 5000, "shares": {"50": 0.5 if recites else 0.0}, "longest": None}
    meter = {"generated": share, "held_out": {**share, "shares": {"50": 0.0}}, "difference_error": 0.01}
    known = {
        "val_loss": loss, "bits_per_byte": loss * 1.4, "baselines": BASELINES, "parameters": parameters,
        "memorization": meter, "positions": {"rows": 9, "middle": 1.6, "end": 1.5, "gain": 0.1, "error": 0.001},
    }  # fmt: skip
    first, *evidence = diagnose(facts(found, evaluation=known, tokens=100_000))
    assert all(not one.remedy and not one.settings for one in evidence)
    courses = {"diverged", "unsteady", "over-fit", "learning", "plateau", "unclear"}
    (course,) = courses & {one.kind for one in (first, *evidence)}
    for words, fitting in SAYS.items():
        said = [one for one in (first, *evidence) if words in one.sentence + one.remedy]
        assert not said or course in fitting, (course, said)
    assert first.kind in (course, "too large", "memorization", "baselines")
    if first.kind == "baselines":
        assert loss >= BASELINES["uniform"]["loss"] and course == "plateau"
    if course == "plateau" and evaluated >= 12 and noise <= 0.01:  # what it says is so
        assert abs(np.median(curve(steps, True)[-3:]) - np.median(curve(steps, True)[-6:-3])) < 0.2


def test_a_validation_loss_that_fell_is_not_called_at_rest_beside_too_noisy() -> None:
    """It was told to take twice the learning rate beside "too noisy to say", while the loss fell by 0.13."""
    steps = np.arange(1, 5) * 500
    found = rows("validation", steps, np.array([2.60, 2.35, 2.41, 2.22]))
    known = {"val_loss": 2.22, "bits_per_byte": 3.2, "baselines": BASELINES}
    said = diagnose(facts(found + rows("train", LOGGED[-9:], np.full(9, 2.3)), evaluation=known))
    assert {"unclear", "under-fit"} <= {one.kind for one in said}
    assert not any("improving" in one.sentence + one.remedy for one in said if one.kind != "unclear")
    assert not any("learning_rate" in setting for one in said for setting in one.settings)


def test_what_a_reward_teaches_is_not_measured_by_the_loss_on_answers() -> None:
    recipe = {
        "corpus": {"kind": "wishes"},
        "split": "documents",
        "batches": "conversations",
        "objective": {"kind": "policy-gradient", "answers": True, "reward": "pidgin"},
    }
    baselines = {"uniform": {"loss": 6.0}, "start": {"loss": 0.72}}
    found = kinds(facts([], recipe=recipe, evaluation={"val_loss": 0.73, "baselines": baselines}))
    assert "baselines" not in found


@pytest.mark.parametrize(
    ("validation", "kind"),
    [
        ([3.0, 2.6, 2.3, 2.1, 2.0, 1.9, 1.8, 1.7], "learning"),
        ([3.0, 2.0, 1.9, 1.9, 2.2, 2.4, 2.5, 2.6], "over-fit"),
        ([3.0, 2.0, 1.9, 1.901, 1.9, 1.902, 1.9, 1.901], "plateau"),
    ],
)
@pytest.mark.parametrize("unit", [1e-6, 1e-2, 1.0, 1e6])
def test_the_unit_of_numbers_changes_no_verdict(validation: list[float], kind: str, unit: float) -> None:
    """The loss of a density may be zero or below, so a share of it says nothing."""
    moved = 2 * np.log(unit)  # of two channels
    steps = np.arange(1, 9) * 50
    found = rows("validation", steps, np.array(validation) + moved, unit="nats per step")
    found += rows("train", steps, np.full(8, 2.0) + moved)
    recipe = {
        "corpus": "dynamics",
        "batches": "series",
        "objective": "forecast",
        "model": {"input": "linear", "output": "gaussian"},
    }
    given = dataclasses.replace(facts(found, recipe=recipe), vocab_size=2)
    assert set(kinds(given)) == {kind}


def test_forecasts_are_held_against_simple_predictors_at_the_horizon_that_counts() -> None:
    """One step ahead it was the best of all, and that alone was said."""
    recipe = {
        "corpus": "dynamics",
        "batches": "series",
        "objective": {"kind": "forecast", "horizons": [1, 60]},
        "model": {"input": "linear", "output": "gaussian"},
    }
    far = {"this model": [0.5, 3.0], "NLinear": [0.7, 2.5], "drift": [0.9, None]}
    predictors = {
        name: [
            {"horizon": horizon, "scaled_crps": score, "crps_by_channel": [score]}
            for horizon, score in zip((1, 60), scores, strict=True)
        ]
        for name, scores in far.items()
    }
    forecast = {"horizons": [1, 60], "main_horizon": 60, "rate": 300, "predictors": predictors}
    evaluation = {"val_loss": 1.0, "baselines": {"NLinear": {"loss": 2.0}}, "forecast": forecast}
    rivals = ForecastTask().rivals(evaluation)
    one = kinds(facts([], recipe=recipe, evaluation=evaluation, rivals=rivals))["baselines"]
    assert one.sentence == "By CRPS, 60 steps ahead (200 ms), it is below drift, but not below NLinear."
    assert one.evidence == {"loss": 3.0, "NLinear": 2.5, "drift": None} and one.severity == "note"


def beside_the_source(nats: float, tokens: int = 1000, checkpoints: int = 1) -> set[str]:
    """Kinds of a run whose text is so many nats more probable to the model than to its source."""
    evaluation = {"val_loss": 2.0, "source_loss": 2.0 + nats / tokens, "tokens": tokens, "baselines": {}}
    steps = np.arange(1, checkpoints + 1) * 50
    return set(kinds(facts(rows("validation", steps, np.full(checkpoints, 2.0)), evaluation=evaluation)))


def test_a_loss_below_that_of_the_source_proves_a_mistake() -> None:
    assert "impossible" not in beside_the_source(13.5)
    assert "impossible" in beside_the_source(14.0)
    assert "impossible" not in beside_the_source(14.0, checkpoints=2)  # the luckier one of two
    assert "impossible" not in beside_the_source(-500.0)
    evaluation = {"val_loss": 1.9, "source_entropy": 2.0, "tokens": 1000, "baselines": {}}
    first = diagnose(facts([], evaluation=evaluation))[0]
    assert (first.kind, first.severity, first.evidence["nats_below"]) == (
        "impossible",
        "bad",
        pytest.approx(100),
    )
    assert not diagnose(facts([], evaluation=evaluation, elsewhere=True))


def test_no_honest_model_is_called_impossible() -> None:
    """Models of every nearness to a source, each judged on what the source wrote: at the bound that one of a hundred
    may pass, fewer than one of a hundred does."""
    rng, passed, texts = np.random.default_rng(0), 0, 4000
    for _ in range(texts):
        source = rng.dirichlet(np.ones(8))
        model = np.exp(np.log(source) + rng.choice([0.01, 0.1, 0.3]) * rng.standard_normal(8))
        counts = rng.multinomial(200, source)
        passed += (counts * np.log(model / model.sum() / source)).sum() > np.log(100)
    assert 0 < passed < texts / 100
