"""From a study's folder to words: each verdict, its numbers, what became of the hypothesis."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from octavo.studies.results import StudyResults, collect
from octavo.studies.verdict import ChangeVerdict, analyse_study
from unit.studies.synthetic import NOISE, Truth, make


def analysis(results: StudyResults) -> dict[str, ChangeVerdict]:
    return {verdict.change: verdict for verdict in analyse_study(results).verdicts}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    truths = {
        "worse": Truth(shift=8),
        "better": Truth(shift=-8),
        "same": Truth(),
        "flat": Truth(flat=True),
        "nan": Truth(failed=dict.fromkeys((1337, 1339), "The loss was nan at step 120.")),
        "one lost": Truth(shift=8, failed={1338: "The run needs more memory than there is."}),
    }
    expect = {
        "worse": "fails",
        "better": "better",
        "same": "same",
        "flat": "fails",
        "nan": "worse",
        "one lost": "any",
    }
    return make(tmp_path_factory.mktemp("study") / "mixed", truths, expect=expect)


def test_each_verdict_and_whether_the_hypothesis_held(mixed: StudyResults) -> None:
    found = analysis(mixed)
    assert {name: (verdict.verdict, verdict.held) for name, verdict in found.items()} == {
        "worse": ("worse", False),
        "better": ("better", True),
        "same": ("no difference seen", True),
        "flat": ("failed to train", True),
        "nan": ("failed to train", True),
        "one lost": ("worse", None),
    }


def test_a_sentence_for_people(mixed: StudyResults) -> None:
    found = analysis(mixed)
    number = r"0\.0\d\d\d"
    pattern = rf"worse by {number} bits per byte \(95 % interval {number} to {number}; noise between seeds {number}\)"
    end = "; the hypothesis “It is as the report says about worse” did not hold"
    assert re_full(pattern, found["worse"].statement)
    assert found["worse"].sentence == found["worse"].statement + end
    assert "would have been seen 19 times out of 20" in found["same"].statement
    assert found["same"].sentence.endswith("held, as far as this study can see")
    assert "no better than counting how often each token occurs (4.700)" in found["flat"].statement
    assert found["nan"].statement.startswith("failed to train: 2 of 3 runs; seed 1337: The loss was nan")
    assert "1 of 3 runs failed to train and is left out" in found["one lost"].statement
    assert found["one lost"].sentence.endswith("was left open")


def re_full(pattern: str, text: str) -> bool:
    import re

    return re.fullmatch(pattern, text) is not None


def test_numbers_behind_the_words(mixed: StudyResults) -> None:
    whole = analyse_study(mixed)
    found = analysis(mixed)
    worse = found["worse"]
    mean = sum(run.metric or 0 for run in mixed.of("worse")) / 3
    base = [run.metric or 0 for run in mixed.of("baseline")]
    assert worse.mean == pytest.approx(mean)
    assert worse.difference == pytest.approx(mean - sum(base) / len(base))
    assert worse.interval is not None and worse.interval[0] < 8 * NOISE < worse.interval[1]
    assert whole.noise == pytest.approx(NOISE, rel=0.5)
    assert whole.seeds == len(base) == 3 + len(mixed.study.noise_seeds)
    assert found["flat"].interval is None and found["flat"].p_adjusted is None


def test_what_failed_does_not_speak_for_the_noise(mixed: StudyResults, tmp_path: Path) -> None:
    truths = {"a": Truth(), "b": Truth(failed={1337: "nan"}, noisier=200), "c": Truth(flat=True, noisier=5)}
    whole = analyse_study(make(tmp_path / "s", truths))
    assert whole.noise is not None and whole.noise < 2 * NOISE


def test_accuracy_is_better_when_larger(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"change": Truth(shift=40)}, metric="accuracy")
    runs = tuple(dataclasses.replace(run, metric=run.accuracy) for run in results.runs)
    (verdict,) = analyse_study(dataclasses.replace(results, runs=runs)).verdicts
    assert verdict.verdict == "worse" and verdict.difference is not None and verdict.difference < 0
    assert "points of accuracy" in verdict.statement


@pytest.mark.parametrize("metric", ["val_loss", "perplexity"])
def test_other_metrics(tmp_path: Path, metric: str) -> None:
    results = make(tmp_path / "s", {"change": Truth(shift=9)}, metric=metric)
    (verdict,) = analyse_study(results).verdicts
    assert verdict.verdict == "worse"
    factor = math.log(2) * (math.exp(2.3 * math.log(2)) if metric == "perplexity" else 1)
    assert verdict.difference == pytest.approx(9 * NOISE * factor, rel=0.3)


def test_per_token_figures_of_other_tokenizers_come_with_a_warning(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"pairs": Truth(bytes_per_token=2.0)}, metric="val_loss")
    assert any("does not compare" in note for note in analyse_study(results).notes)
    bits = make(tmp_path / "t", {"pairs": Truth(bytes_per_token=2.0)})
    assert not any("compare" in note for note in analyse_study(bits).notes)


def test_another_text_is_said(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"crusoe": Truth(shift=20)})
    study = dataclasses.replace(results.study, data={"baseline": "a", "crusoe": "b"})
    notes = analyse_study(dataclasses.replace(results, study=study)).notes
    assert any("crusoe: evaluated on another text" in note for note in notes)


def test_what_is_too_small_to_matter(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"change": Truth(shift=6)}, smallest_interesting=0.2)
    (verdict,) = analyse_study(results).verdicts
    assert verdict.verdict == "no difference seen"
    assert verdict.statement.startswith("no difference that matters")


def test_stopped_as_hopeless_is_worse_without_numbers(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"change": Truth()}, expect={"change": "worse"})
    runs = tuple(
        dataclasses.replace(run, status="stopped", reason="It was 40 % behind at step 250.", metric=None)
        if run.change == "change"
        else run
        for run in results.runs
    )
    (verdict,) = analyse_study(dataclasses.replace(results, runs=runs)).verdicts
    assert (verdict.verdict, verdict.held, verdict.interval) == ("worse", True, None)
    assert "stopped early as hopeless" in verdict.sentence and "40 %" in verdict.sentence


def test_a_study_that_is_not_finished_says_so(tmp_path: Path) -> None:
    make(tmp_path / "s", {"one": Truth(shift=9), "two": Truth()})
    for path in (tmp_path / "s" / "runs" / "two").glob("*/outcome.json"):
        path.unlink()
    (tmp_path / "s" / "runs" / "one" / "seed-1337" / "outcome.json").unlink()
    results = collect(tmp_path / "s")
    found = analysis(results)
    assert found["two"].verdict == "not judged" and found["two"].held is None
    assert found["one"].verdict == "worse" and found["one"].seeds == 2
    assert any("4 runs are still to come" in note for note in analyse_study(results).notes)


def test_a_baseline_that_fails_judges_nothing(tmp_path: Path) -> None:
    results = make(
        tmp_path / "s", {"baseline": Truth(failed=dict.fromkeys(range(1337, 1400), "nan")), "one": Truth()}
    )
    whole = analyse_study(results)
    assert [verdict.verdict for verdict in whole.verdicts] == ["not judged"]
    assert any("Of the baseline" in note for note in whole.notes)


def test_a_baseline_that_learned_nothing_is_said_and_still_compared(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"baseline": Truth(flat=True), "one": Truth(shift=-60, flat=True)})
    whole = analyse_study(results)
    assert whole.verdicts[0].verdict == "better"
    assert any("baseline itself" in note for note in whole.notes)


def test_the_verdict_is_the_same_each_time(mixed: StudyResults) -> None:
    assert analyse_study(mixed) == analyse_study(collect(mixed.folder))
    json.dumps([dataclasses.asdict(verdict) for verdict in analyse_study(mixed).verdicts])
