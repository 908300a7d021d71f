"""The end of a run: the best weights on the whole split, next to the baselines; a last sample; the report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from octavo.config import Recipe
from octavo.config.parts import command
from octavo.data import Dataset
from octavo.errors import DivergedError
from octavo.evaluation.diagnostics import Facts, diagnose
from octavo.report import ReportData, write_report
from octavo.report.page import Explainer
from octavo.report.test_looks import is_to_be_audited, of_result
from octavo.run.evaluate import evaluate_own
from octavo.run.explain import explainer_of
from octavo.run.folder import Progress, RunFolder, next_lines, next_step, progress_of
from octavo.run.run import Run
from octavo.run.trainer import write_samples
from octavo.task import task_of
from octavo.training.device import Runtime
from octavo.util.files import replace_text, storage_errors
from octavo.util.records import json_text, plain
from octavo.util.terminal import Console


def finish(
    folder: RunFolder, dataset: Dataset, runtime: Runtime, console: Console, *, earlier: float = 0.0
) -> Run:
    """Evaluate, sample, report: writes evaluation.json, samples/ and report/; returns the run, whose counts have read
    the validation split on. `earlier`: seconds of sessions before."""
    run = Run.open(folder.path, checkpoint="best", dataset=dataset)
    task, model = task_of(run.config), run.model.to(runtime.device)
    with console.working("evaluating", None):
        evaluation, written = evaluate_own(run, dataset, runtime, console)
        evaluation = task.beside_start(run, evaluation, dataset, runtime, console)
        texts = write_samples(folder.samples, run.step, model, dataset, run.config)
    result = evaluation.as_dict()
    result["seconds"] = {"training": Progress.of(Run.open(folder.path, checkpoint="last").checkpoint).seconds}
    result["seconds"] |= {
        "first_loss": None if earlier else console.first_loss_after,
        "in_all": earlier + time.monotonic() - console.started,
    }
    if teachers := folder.own_teachers():
        result["seconds"]["teachers"] = sum(progress_of(teacher).seconds for teacher in teachers)
    result["next"] = plain(next_step(folder, run.config, result["diagnostics"]))
    result["verdict"] = verdict(result, run.config)
    if written is not None:
        written.save(folder.samples / "judged.jsonl")
    explainer = explainer_of(run, dataset, console)
    report(folder, result, explainer)
    for text in texts:
        console.say(f"it writes:\n{text}\n")
    tell(result, console)
    if explainer is not None:
        console.say(
            f"{run.path / 'report' / 'index.html'} runs the model: type, look inside, switch off a head"
        )
    manifest = folder.made_by() or {}
    if run.config.test and not is_to_be_audited(manifest, run.config) and not of_result(manifest, result):
        looks = command("octavo", "eval", folder.path, "--test")
        console.say(f"the result, on the split that was kept out of everything: {looks}")
    model.to("cpu")
    return run


def finish_diverged(
    folder: RunFolder, recipe: Recipe, dataset: Dataset, error: DivergedError, console: Console
) -> None:
    """The report of a run that broke off, with its curve, why, and what to do; writes evaluation.json and report/."""
    facts = Facts(
        recipe=recipe,
        steps=recipe.training.steps or 1,
        vocab_size=dataset.tokenizer.vocab_size,
        train_tokens=len(dataset.train.tokens),
        rows=folder.rows(),
        diverged=error.what,
    )
    diagnostics = plain(diagnose(facts))
    result: dict[str, Any] = {"diverged": error.what, "diagnostics": diagnostics}
    result["next"] = plain(next_step(folder, recipe, diagnostics))
    result["verdict"] = [diagnostic["sentence"] for diagnostic in diagnostics]
    report(folder, result)


def report(folder: RunFolder, result: dict[str, Any], explainer: Explainer | None = None) -> None:
    """Write evaluation.json and the page."""
    with storage_errors(folder.path):
        replace_text(folder.evaluation, json_text(result, indent=1))
        write_report(folder.path, ReportData.from_run(folder.path), explainer)


def tell(result: dict[str, Any], console: Console) -> None:
    """The verdict on the console, what to do next under it, and below that the evidence."""
    first, *evidence = [diagnostic["sentence"] for diagnostic in result["diagnostics"]] or [None]
    for sentence in result["verdict"]:
        if sentence not in evidence:
            console.say(sentence)
        if sentence == first:
            for line in next_lines(result["next"]):
                console.say(line)
    for sentence in evidence:
        console.say(f"  evidence: {sentence}")


def verdict(result: Mapping[str, Any], recipe: Recipe) -> list[str]:
    """What the figures say, a sentence each."""
    sentences = [
        *task_of(recipe).sentences(result, recipe),
        *(diagnostic["sentence"] for diagnostic in result["diagnostics"]),
    ]
    seconds = result["seconds"]
    first = "" if seconds["first_loss"] is None else f", the first loss after {seconds['first_loss']:.1f} s"
    own = f" and {seconds['teachers']:.0f} s that of its teachers" if "teachers" in seconds else ""
    sentences.append(
        f"{seconds['in_all']:.0f} s in all, {seconds['training']:.0f} s of them training{own}{first}."
    )
    return sentences
