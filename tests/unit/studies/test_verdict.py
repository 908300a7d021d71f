"""From a study's folder to words: each verdict, its numbers, what became of the hypothesis."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from octavo.errors import ConfigError
from octavo.studies.report import write_study_report
from octavo.studies.results import StudyResults, collect
from octavo.studies.table import control_table
from octavo.studies.verdict import ChangeVerdict, analyse_study
from unit.studies.synthetic import LEVEL, NOISE, Truth, make


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
        "same": ("no difference seen", None),  # not seen is not shown to be equal
        "flat": ("worse", True),  # measured; “fails” held, for it learned nothing
        "nan": ("failed to train", True),
        "one lost": ("worse", None),
    }


def test_a_sentence_for_people(mixed: StudyResults) -> None:
    found = analysis(mixed)
    number = r"0\.0\d\d\d"
    pattern = rf"worse by {number} bits per byte \(95 % interval {number} to {number}; noise between seeds {number}\)"
    end = "; the hypothesis “It is as the report says about worse” did not hold"
    assert re_full(pattern, found["worse"].statement)
    curve = found["worse"].curve
    level = analyse_study(mixed).mean
    assert curve is not None
    assert curve.sentence.startswith(f"judged at step 500, where the baseline has {level:.3f} bits per byte")
    assert found["worse"].sentence == f"{found['worse'].statement}; {curve.sentence}{end}"
    assert "would have been seen 19 times out of 20" in found["same"].statement
    assert found["same"].sentence.endswith("is not decided by it")
    learned = r"3 of 3 runs learned nothing \(seed 1337: it ended at 4\.6\d\d bits per byte, not 1 % below counting "
    assert re_full(
        rf"worse by 2\.\d+ .*; {learned}how often each token occurs \(4\.700\)\)", found["flat"].statement
    )
    assert found["nan"].statement.startswith("failed to train: 2 of 3 runs; seed 1337: The loss was nan")
    assert "; 1 of 3 runs failed to train (seed 1338: The run needs more" in found["one lost"].statement
    assert found["one lost"].statement.endswith("and what failed is left out")
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
    assert found["nan"].interval is None and found["nan"].p_adjusted is None
    flat = found["flat"]
    assert flat.interval is not None and flat.interval[0] < 4.7 - 2.3 < flat.interval[1]


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


def test_relative_improvement_is_better_when_larger(tmp_path: Path) -> None:
    """Report E's measure: a change that is worse by bits per byte has lost a smaller share of its initial loss."""
    results = make(tmp_path / "s", {"change": Truth(shift=9)}, metric="improvement")
    (verdict,) = analyse_study(results).verdicts
    assert verdict.verdict == "worse" and verdict.difference == pytest.approx(-9 * NOISE / 6.0, rel=0.3)
    assert "points of relative improvement" in verdict.statement and verdict.interval is not None


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
    assert verdict.verdict == "no difference that matters"
    assert (
        verdict.statement.startswith("no difference that matters") and "all of it within" in verdict.statement
    )


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


@pytest.mark.parametrize(
    ("stopped", "failed", "expected"),
    [(2, 0, "unreliable"), (1, 0, "unreliable"), (1, 2, "failed to train"), (3, 0, "worse")],
)
def test_seeds_that_were_stopped_as_hopeless_are_lost_and_not_forgotten(
    tmp_path: Path, stopped: int, failed: int, expected: str
) -> None:
    truth = Truth(shift=-8, failed={1337 + n: "nan" for n in range(failed)})
    results = make(tmp_path / "s", {"change": truth}, seeds=5)
    last = results.study.seeds[-stopped:]
    runs = tuple(
        dataclasses.replace(run, status="stopped", reason="It was 40 % behind.", metric=None)
        if run.change == "change" and run.seed in last
        else run
        for run in results.runs
    )
    (verdict,) = analyse_study(dataclasses.replace(results, runs=runs)).verdicts
    assert verdict.verdict == expected
    assert "stopped" in verdict.statement and "hopeless" in verdict.statement
    if expected == "unreliable":
        assert f"{stopped} of 5 runs failed to train or were stopped" in verdict.statement


@pytest.mark.parametrize(("of_change", "verdict"), [(1, "unreliable"), (0, "better")])
def test_a_larger_share_of_lost_runs_is_what_counts_not_their_number(
    tmp_path: Path, of_change: int, verdict: str
) -> None:
    """One of three is more than one of six."""
    truths = {
        "baseline": Truth(failed={1337: "nan"}),
        "change": Truth(shift=-16, failed={1338 + n: "nan" for n in range(of_change)}),
    }
    (found,) = analyse_study(make(tmp_path / "s", truths, noise=[1, 2, 3])).verdicts
    assert found.verdict == verdict


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


def test_equal_is_more_than_not_seen(tmp_path: Path) -> None:
    """A seen difference whose interval crosses what matters was once called none that matters."""
    truths = {"change": Truth(shift=6)}  # seen; the interval reaches from below 0.03 to above it
    expect = {"change": "same"}
    held = {}
    for limit in (0.002, 0.03, 0.2, None):
        results = make(tmp_path / str(limit), truths, expect=expect, smallest_interesting=limit)
        (verdict,) = analyse_study(results).verdicts
        held[limit] = (verdict.verdict, verdict.held)
    assert held == {
        0.002: ("worse", False),
        0.03: ("worse", None),
        0.2: ("no difference that matters", True),
        None: ("worse", False),
    }
    (verdict,) = analyse_study(make(tmp_path / "x", truths, smallest_interesting=0.03)).verdicts
    assert "it may be less than the 0.03" in verdict.statement


@pytest.mark.parametrize(
    ("size", "held"),
    [
        ({"bits": [0.001, 0.1]}, True),
        ({"bits": [0.1, 0.3]}, False),
        ({"bits": [-0.3, -0.01]}, False),
        ({"bits": [0.031, 0.1]}, None),
        ({"nats": [0.001, 0.1]}, True),  # a token is a byte here
        ({"points": [0.1, 0.3]}, None),  # not this study's metric
    ],
)
def test_a_hypothesis_with_a_size(size: dict[str, list[float]], held: bool | None, tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"change": Truth(shift=6)}, expect={"change": size})
    (verdict,) = analyse_study(results).verdicts
    assert verdict.held is held
    (again,) = analyse_study(collect(tmp_path / "s")).verdicts
    assert again == verdict and dict(verdict.expect or {}) == {key: tuple(ends) for key, ends in size.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "size", [{"bits": [0.2, 0.1]}, {"bits": [0.1]}, {"feet": [1, 2]}, {}, {"bits": [0, "x"]}]
)
def test_a_size_that_is_none_is_refused(size: dict[str, list[float]], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expect"):
        make(tmp_path / "s", {"change": Truth()}, expect={"change": size})


def test_what_survives_is_not_the_whole_change(tmp_path: Path) -> None:
    """A change that loses a run is no improvement, whatever the others reach, unless the baseline loses as many."""
    lost = {1338: "The loss was nan."}
    results = make(tmp_path / "s", {"change": Truth(shift=-20, failed=lost)}, expect={"change": "better"})
    (verdict,) = analyse_study(results).verdicts
    assert (verdict.verdict, verdict.held) == ("unreliable", False)
    assert "of the baseline 0 of 3" in verdict.statement and "better by" in verdict.statement
    both = make(
        tmp_path / "t",
        {"baseline": Truth(failed=lost), "change": Truth(shift=-60, failed=lost)},
        expect={"change": "better"},
    )
    (verdict,) = analyse_study(both).verdicts
    assert (verdict.verdict, verdict.held) == ("better", True)


def counted(results: StudyResults, trigram: float) -> StudyResults:
    """The study whose runs say what counting trigrams reaches."""
    row = {"loss": trigram * math.log(2), "bits_per_byte": trigram, "order": 3}
    for path in results.folder.glob("runs/*/*/evaluation.json"):
        found = json.loads(path.read_text())
        found["baselines"] |= {"trigram": row, "ngram": row | {"order": 5, "bits_per_byte": trigram - 0.5}}
        path.write_text(json.dumps(found))
    return collect(results.folder)


def test_below_the_trigram_nothing_holds(tmp_path: Path) -> None:
    expect = {"a": "worse", "b": "fails"}
    made = make(tmp_path / "s", {"a": Truth(shift=9), "b": Truth(flat=True)}, expect=expect)
    good, bad = analyse_study(counted(made, 2.5)), analyse_study(counted(made, 2.2))
    assert good.nothing_learned is None and [one.held for one in good.verdicts] == [True, True]
    assert bad.nothing_learned is not None and [one.held for one in bad.verdicts] == [None, None]
    assert bad.nothing_learned.startswith("Nothing has been learned yet: not a test of the claim.")
    assert "counting 3-grams has 2.200" in bad.nothing_learned
    page = write_study_report(tmp_path / "s").read_text()
    first = page[page.index("<h1>") : page.index("</p>", page.index("<h1>"))]
    assert "Nothing has been learned yet" in first
    assert "counting 5-grams" in page and "1.700" in page
    assert [row[0] for row in control_table(collect(tmp_path / "s"))[1:]] == [
        "baseline",
        "counting 3-grams",
        "counting 5-grams",
    ]


def test_what_over_fits_has_learned_before(tmp_path: Path) -> None:
    """The last weights decide the verdict, the best step whether anything was learned."""
    made = make(tmp_path / "s", {"a": Truth(shift=9)}, expect={"a": "worse"})
    for path in made.folder.glob("runs/baseline/*/evaluation.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "bits_per_byte": 2.1}))
    good, bad = analyse_study(counted(made, 2.2)), analyse_study(counted(made, 2.05))
    assert good.nothing_learned is None and good.verdicts[0].held
    assert bad.nothing_learned is not None and "The baseline reaches 2.100 " in bad.nothing_learned


def test_an_easy_part_of_the_text_is_no_sign_of_learning(tmp_path: Path) -> None:
    """Evaluations on the way may be of a part of the split; what counting reaches is of all of it."""
    made = make(tmp_path / "s", {"a": Truth(shift=9)}, expect={"a": "worse"})
    for path in made.folder.glob("runs/*/*/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if row["event"] == "validation":
                row |= {"bits_per_byte": row["bits_per_byte"] - 1.5, "tokens": 4_096}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    analysis = analyse_study(counted(made, 2.2))
    assert analysis.mean is not None and analysis.mean == pytest.approx(LEVEL, abs=0.1)
    (verdict,) = analysis.verdicts
    assert analysis.nothing_learned is not None and verdict.held is None
    assert f"The baseline reaches {analysis.mean:.3f} " in analysis.nothing_learned
    assert f"where the baseline has {analysis.mean:.3f} bits per byte" in verdict.sentence
    page = write_study_report(tmp_path / "s").read_text()
    assert "The curves are of 4,096 of the " in page
    assert "<h2>Relative improvement" not in page, (
        "of the untrained model only the loss on all of it is known"
    )
