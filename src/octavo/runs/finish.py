"""The end of a run: the best weights judged on the whole split beside the baselines, a last sample, the report."""

from __future__ import annotations

import json
import time
from typing import Any

from octavo.config import Recipe
from octavo.dataset import Dataset
from octavo.errors import DivergedError
from octavo.evaluation.finding import Facts, remedy_lines
from octavo.evaluation.verdict import verdicts
from octavo.report import ReportData, write_report
from octavo.runs.console import Console
from octavo.runs.evaluate import evaluation, examined, last_step, whole_split
from octavo.runs.folder import RunFolder
from octavo.runs.run import Run
from octavo.runs.session import write_samples
from octavo.runs.written import write
from octavo.training.checkpoint import replace_text, storage_errors
from octavo.training.runtime import Runtime


def finish(folder: RunFolder, dataset: Dataset, runtime: Runtime, console: Console) -> None:
    """Judge, sample and report; writes evaluation.json, samples/ and report/."""
    run = Run.open(folder.path, checkpoint="best")
    model = run.model.to(runtime.device)
    with console.working("judging", None):
        result = evaluation(model, dataset, whole_split(run.config), runtime, step=run.step, console=console)
        written = write(model, dataset, run.config)
        result = examined(result, written, dataset, run.config, rows=run.metrics, steps=last_step(run))
        texts = write_samples(folder.samples, run.step, model, dataset, run.config)
    result["seconds"] = {"training": Run.open(folder.path, checkpoint="last").checkpoint.state()["seconds"]}
    result["seconds"] |= {
        "first_loss": console.first_loss_after,
        "in_all": time.monotonic() - console.started,
    }
    result["verdict"] = verdict(result)
    written.save(folder.samples / "judged.jsonl")
    report(folder, result)
    for text in texts:
        console.say(f"it writes:\n{text}\n")
    tell(result, console)


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
    findings = [finding.as_dict() for finding in verdicts(facts)]
    result = {"diverged": error.what, "findings": findings}
    result["verdict"] = [finding["sentence"] for finding in findings]
    report(folder, result)


def report(folder: RunFolder, result: dict[str, Any]) -> None:
    """Write evaluation.json and the page."""
    with storage_errors(folder.path):
        replace_text(folder.evaluation, json.dumps(result, indent=1))
        write_report(folder.path, ReportData.from_run(folder.path))


def tell(result: dict[str, Any], console: Console) -> None:
    """The verdict on the console, each remedy under its sentence."""
    remedies = remedy_lines(result["findings"])
    for sentence in result["verdict"]:
        console.say(sentence)
        if sentence in remedies:
            console.say(remedies[sentence])


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
    said += [finding["sentence"] for finding in result.get("findings", [])]
    seconds = result["seconds"]
    first = "" if seconds["first_loss"] is None else f", the first loss after {seconds['first_loss']:.1f} s"
    said.append(f"{seconds['in_all']:.0f} s in all, {seconds['training']:.0f} s of them training{first}.")
    return said
