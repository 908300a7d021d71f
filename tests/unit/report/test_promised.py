"""The promise on a run's page: beside what came out, or without it; damaged manifests have none."""

from __future__ import annotations

from typing import Any

import pytest

from octavo.report.promised import in_plain_words, of_promise, written_like

AUTO = {
    "promise": {"minutes": 5, "bits": 2.21, "within": 0.04, "parameters": 800_000, "steps": 1500},
    "reasons": {"model": "It fits."},
}


def test_before_anybody_looked() -> None:
    found = of_promise({"auto": AUTO})
    assert "Promised for 5 minutes: 2.21 ± 0.04" in found["promise"] and "Came out" not in found["promise"]
    assert found["reasons"] == {"model": "It fits."}


def test_beside_the_planned_steps_stand_those_that_were_done() -> None:
    planned = "planned: 0.39 passes over 1,000 tokens, as many as there is time for."
    auto = AUTO | {"reasons": {"training.steps": planned}}
    manifest = {"auto": auto, "data": {"splits": {"train": {"tokens": 1000}}}}
    rows = [{"event": "train", "step": 200, "tokens": 158}, {"event": "validation", "step": 207}]
    assert of_promise(manifest, metrics=rows)["reasons"]["training.steps"] == (
        f"{planned} Came out: 207 steps, 0.158 passes."
    )
    assert of_promise(manifest)["reasons"]["training.steps"] == planned
    auto["reasons"]["training.teachers"] = "They teach."  # whose passes are planned together with its own
    assert (
        of_promise(manifest, metrics=rows)["reasons"]["training.steps"] == f"{planned} Came out: 207 steps."
    )


@pytest.mark.parametrize(
    ("bits", "said"),
    [(2.24, ", as"), (2.18, ", as"), (2.26, ", worse than"), (2.10, ", better than")],
)
def test_beside_what_came_out(bits: float, said: str) -> None:
    looks = [{"bits_per_byte": bits}, {"bits_per_byte": 9.0}]
    sentence = of_promise({"auto": AUTO, "test_looks": looks})["promise"]
    assert f"{bits:.3f} on the test split" in sentence, "the first look counts"
    assert sentence.endswith(f"{said} promised.")


def test_what_the_audit_saw_counts_and_no_look_at_another_model_does() -> None:
    early, audit, later = (
        {"step": step, "bits_per_byte": bits} for step, bits in ((0, 2.9), (90, 2.2), (180, 2.0))
    )
    auto = {"auto": AUTO}

    def sentence(*looks: object, step: int, minutes: float = 5.0) -> str:
        settings = {"training": {"minutes": minutes}}
        return of_promise(auto | {"test_looks": looks}, {"step": step}, settings)["promise"]

    assert "Came out" not in sentence(early, step=90)
    assert "Came out: 2.200" in sentence(early, audit, step=90)
    assert "Came out: 2.200" in sentence(audit | {"audits": True}, later, step=180, minutes=10.0)
    assert "Came out" not in sentence(early, later, step=180, minutes=10.0), (
        "it was promised for other minutes"
    )


def test_no_promise_goes_below_nothing() -> None:
    wide = {**AUTO, "promise": {**AUTO["promise"], "bits": 0.39, "within": 0.67}}
    assert "Promised for 5 minutes: 0.39 (0 to 1.06) bits" in of_promise({"auto": wide})["promise"]


@pytest.mark.parametrize(
    "auto", [None, 5, {}, {"promise": {}}, {**AUTO, "promise": {**AUTO["promise"], "bits": float("nan")}}]
)
def test_a_run_without_a_promise(auto: Any) -> None:
    assert of_promise({"auto": auto})["promise"] is None


def test_under_the_promise_stands_what_the_text_is_like_and_what_more_time_would_bring() -> None:
    """Word salad was called “as promised”, and nothing else."""
    evaluation = {
        "val_loss": 1.95,
        "baselines": {"ngram": {"loss": 2.0, "order": 5}},
        "known_words": {"generated": 0.97, "held_out": 0.95},
    }
    longer = {"minutes": 30, "bits": AUTO["promise"]["bits"] - 0.3, "within": 0.05}
    like = of_promise({"auto": {**AUTO, "longer": longer}}, evaluation)["like"]
    assert like.startswith("Its words are right") and "its sentences are not right" in like
    assert f"30 minutes would bring {longer['bits']:.2f} ± 0.05 bits per byte on new text" in like
    same = {**longer, "bits": AUTO["promise"]["bits"] - 0.001}
    assert (
        "30 minutes would hardly change that"
        in of_promise({"auto": {**AUTO, "longer": same}}, evaluation)["like"]
    )
    assert of_promise({"auto": AUTO}, evaluation)["like"].endswith("counting 2.00).")
    assert of_promise({"auto": {**AUTO, "longer": longer}})["like"] == ""


def measured_text(own: float, new: float, loss: float, again: float = 0.1) -> dict[str, Any]:
    return {
        "val_loss": loss,
        "baselines": {"ngram": {"loss": 2.0, "bits_per_byte": 2.9, "order": 5}},
        "known_words": {"generated": own, "held_out": new},
        "diversity": {"generated": {"repeated": {"mean": again}}, "held_out": {"repeated": {"mean": 0.1}}},
    }


@pytest.mark.parametrize(
    ("own", "loss", "again", "words"),
    [
        (0.97, 1.95, 0.1, "Its words are right (97% of them stand in the training text; of the words of new text, 95%"),
        (0.97, 1.95, 0.1, "sentences are not right: it is hardly better than counting 5 tokens in a row (1.95 nats"),
        (0.97, 1.2, 0.1, ", and its sentences hang together longer than counting 5 tokens in a row lets them (1.20"),
        (0.80, 1.95, 0.1, "20% of its words are made up (80% of them stand in the training text; of the words of "),
        (0.80, 1.2, 0.1, ", but its sentences hang together"),
        (0.97, 1.2, 0.4, ", but its phrases come again and again (40%, in new text 10%)."),
    ],
)  # fmt: skip
def test_what_the_text_is_like_is_said_from_what_was_measured(
    own: float, loss: float, again: float, words: str
) -> None:
    assert words in in_plain_words(measured_text(own, 0.95, loss, again))


def test_nothing_is_said_of_a_text_that_was_not_measured() -> None:
    whole = measured_text(0.97, 0.95, 1.9)
    assert in_plain_words(whole)
    for name in ("known_words", "val_loss", "baselines"):
        assert in_plain_words({key: value for key, value in whole.items() if key != name}) == ""
    assert in_plain_words({}) == "" == in_plain_words({**whole, "known_words": {"held_out": 1.0}})


@pytest.mark.parametrize(("off", "said"), [(-1.1, False), (-0.9, True), (0.9, True), (1.1, False)])
def test_after_a_promise_that_did_not_hold_its_law_promises_nothing_more(off: float, said: bool) -> None:
    evaluation = {
        "val_loss": 1.95,
        "baselines": {"ngram": {"loss": 2.0, "order": 5}},
        "known_words": {"generated": 0.97, "held_out": 0.95},
    }
    promise = AUTO["promise"]
    longer = {"minutes": 30, "bits": promise["bits"] - 0.3, "within": 0.05}
    look = {"bits_per_byte": promise["bits"] + off * promise["within"], "audits": True}
    like = written_like(evaluation, promise, longer, look["bits_per_byte"])
    assert ("30 minutes would bring" in like) == said
    assert like.startswith("Its words are right")
