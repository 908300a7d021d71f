"""The end of a run: the best weights judged on the whole split beside the baselines, a last sample, the report."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

from octavo.config import Recipe
from octavo.dataset import Dataset
from octavo.generation import Writer
from octavo.model.gpt import GPT
from octavo.report import ReportData, write_report
from octavo.runs.console import Console
from octavo.runs.evaluate import evaluation, whole_split
from octavo.runs.folder import RunFolder
from octavo.runs.judge import sampling_of
from octavo.runs.run import Run
from octavo.runs.session import sample_text
from octavo.synthesis.checker import check as check_pidgin
from octavo.training.checkpoint import replace_text, storage_errors
from octavo.training.runtime import Runtime

JUDGED_STORIES = 200


def finish(folder: RunFolder, dataset: Dataset, runtime: Runtime, console: Console) -> None:
    """Judge, sample and report; writes evaluation.json, samples/ and report/."""
    run = Run.open(folder.path, checkpoint="best")
    model = run.model.to(runtime.device)
    with console.working("judging", None):
        result = evaluation(model, dataset, whole_split(run.config), runtime, step=run.step, console=console)
        if run.config.corpus.kind == "storyteller":
            result["stories"] = judged_stories(model, dataset, run.config)
        text = sample_text(model, dataset, run.config)
    result["seconds"] = {"training": Run.open(folder.path, checkpoint="last").checkpoint.state()["seconds"]}
    result["seconds"] |= {
        "first_loss": console.first_loss_after,
        "in_all": time.monotonic() - console.started,
    }
    result["verdict"] = verdict(result)
    with storage_errors(folder.path):
        replace_text(folder.evaluation, json.dumps(result, indent=1))
        (folder.samples / f"step-{run.step:06d}.txt").write_text(text, encoding="utf-8")
        write_report(folder.path, ReportData.from_run(folder.path))
    console.say(f"it writes:\n{text}\n")
    for sentence in result["verdict"]:
        console.say(sentence)


def judged_stories(model: GPT, dataset: Dataset, recipe: Recipe) -> dict[str, Any]:
    """How many of the stories that the model writes with the recipe's sampling the pidgin checker passes, and what is
    wrong with the others."""
    writer, sampling = Writer(model, dataset.tokenizer), sampling_of(recipe.sampling)
    written = writer.samples(
        "", tokens=model.context, sampling=sampling, count=JUDGED_STORIES, seed=recipe.seed
    )
    verdicts = [check_pidgin(story.text) for story in written]
    problems = [verdict.problems[0] for verdict in verdicts if not verdict.ok]
    passed = sum(verdict.ok for verdict in verdicts)
    return {
        "written": len(written),
        "passed": passed,
        "sampling": asdict(sampling),
        "problems": problems[:20],
    }


def verdict(result: dict[str, Any]) -> list[str]:
    """What the figures say, a sentence each."""
    loss, beaten = result["val_loss"], []
    for name in ("uniform", "unigram", "bigram", "ngram"):
        baseline = result["baselines"].get(name)
        if baseline and loss < baseline["loss"]:
            beaten.append(f"{baseline['order']}-gram" if name == "ngram" else name)
    said = [
        f"Validation loss {loss:.4f} nats per token, {result['bits_per_byte']:.3f} bits per byte: "
        + (f"better than {', '.join(beaten)}." if beaten else "not better than guessing.")
    ]
    if "source_entropy" in result:
        above = loss / result["source_entropy"] - 1
        said.append(
            f"The source's own entropy is {result['source_entropy']:.4f} nats per token, a limit that no model "
            f"can beat; this one is {above:.1%} above it."
        )
    if "stories" in result:
        stories = result["stories"]
        how = ", ".join(
            f"{name}={value}" for name, value in stories["sampling"].items() if value not in (None, 1.0)
        )
        drawn = f" (drawn with {how})" if how else ""
        said.append(
            f"{stories['passed']} of {stories['written']} stories that it wrote{drawn} are good pidgin."
        )
    seconds = result["seconds"]
    first = "" if seconds["first_loss"] is None else f", the first loss after {seconds['first_loss']:.1f} s"
    said.append(f"{seconds['in_all']:.0f} s in all, {seconds['training']:.0f} s of them training{first}.")
    return said
