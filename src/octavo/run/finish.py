"""The end of a run: the best weights on the whole split, next to the baselines; a last sample; the report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from octavo.config import Recipe, stored_recipe
from octavo.config.plugins import command
from octavo.data import Dataset
from octavo.errors import DivergedError, OctavoError
from octavo.evaluation import attribution
from octavo.evaluation.diagnostics import Facts, diagnose
from octavo.generation import Sampling
from octavo.model.base import LanguageModel
from octavo.report import ReportData, write_report
from octavo.report.test_looks import of_result
from octavo.run.data import build_dataset
from octavo.run.evaluate import as_it_started, evaluate_split, evaluation, last_step, whole_split, with_texts
from octavo.run.finetune import find_start
from octavo.run.folder import RunFolder
from octavo.run.progress import Progress, next_lines, next_step, progress_of
from octavo.run.run import Run
from octavo.run.samples import wishes_before, write_samples
from octavo.run.test_split import is_to_be_audited
from octavo.tasks.chat import answer_metrics, preference_metrics
from octavo.tasks.chat.prompts import judges_only
from octavo.tasks.forecast import stored
from octavo.tasks.records import validity
from octavo.tokenizers import load_tokenizer
from octavo.training.checkpoint import Checkpoint
from octavo.training.device import Runtime
from octavo.training.objective import TEXT, Unit
from octavo.util.console import Console
from octavo.util.files import replace_text, storage_errors
from octavo.util.records import json_text
from octavo.util.terminal import listed

# What a tuning cost: how well a model predicts the text that it was first trained on, before and after.


def cost_of_tuning(run: Run, model: LanguageModel, runtime: Runtime, console: Console) -> dict[str, Any]:
    """Bits per byte on the first run's own validation split, of the model as it started and as it is; empty where a run
    was not tuned on conversations, or the first one or its text is gone, which is said.
    """
    recipe, started = run.config, run.started
    path = recipe.training.start_from
    if recipe.form == "text" or judges_only(recipe) or path is None or started is None:
        return {}
    try:
        before = first_of_text(path)
        first = stored_recipe(before.folder / "config.yaml")
        tokenizer = load_tokenizer(before.folder / "tokenizer")
        split = build_dataset(first, Console(quiet=True), tokenizer).validation
    except OctavoError as error:
        console.say(f"what the tuning cost is not known, without the text before it: {error.what}")
        return {}
    if not first.objective.build().unit.text or first.model.context > recipe.model.context:
        return {}
    sides = {"before": started.to(runtime.device), "after": model}
    found = {
        name: evaluate_split(one, split, first, tokenizer, runtime).bits_per_byte
        for name, one in sides.items()
    }
    return {"cost": {"bits_per_byte": found}}


def first_of_text(path: Path) -> Checkpoint:
    """The run at `path`, or where that learned from conversations, the one that its road began with."""
    while True:
        found = find_start(path)
        recipe = stored_recipe(found.folder / "config.yaml")
        if recipe.form == "text" or recipe.training.start_from is None:
            return found
        path = recipe.training.start_from


def cost_sentences(cost: dict[str, Any]) -> str:
    """The sentence for it."""
    bits = cost["bits_per_byte"]
    return (
        f"What the tuning cost: {bits['before']:.3f} bits per byte before and {bits['after']:.3f} after, on the "
        "validation text of the run that its road began with."
    )


def finish(
    folder: RunFolder, dataset: Dataset, runtime: Runtime, console: Console, *, earlier: float = 0.0
) -> None:
    """Evaluate, sample, report: writes evaluation.json, samples/ and report/. `earlier`: seconds of sessions before."""
    run = Run.open(folder.path, checkpoint="best")
    model = run.model.to(runtime.device)
    with console.working("evaluating", None):
        recipe = whole_split(run.config)
        result = evaluation(
            model, dataset, recipe, runtime, step=run.step, console=console, reference=run.started
        )
        result["baselines"] |= as_it_started(run.started, dataset.validation, recipe, run.tokenizer, runtime)
        result, written = with_texts(
            result, model, dataset, run.config, rows=run.metrics, steps=last_step(run)
        )
        result |= cost_of_tuning(run, model, runtime, console)
        if "wishes" in result and run.started is not None:
            result["wishes"]["before"] = wishes_before(run.started, dataset, run.config)
        result |= answer_metrics.beside_base(run, dataset)
        texts = write_samples(folder.samples, run.step, model, dataset, run.config)
    result["seconds"] = {"training": Progress.of(Run.open(folder.path, checkpoint="last").checkpoint).seconds}
    result["seconds"] |= {
        "first_loss": None if earlier else console.first_loss_after,
        "in_all": earlier + time.monotonic() - console.started,
    }
    if teachers := folder.own_teachers():
        result["seconds"]["teachers"] = sum(progress_of(teacher).seconds for teacher in teachers)
    result["next"] = next_step(folder, run.config, result["diagnostics"])
    result["verdict"] = verdict(result, run.config.objective.build().unit)
    if written is not None:
        written.save(folder.samples / "judged.jsonl")
    report(folder, result)
    for text in texts:
        console.say(f"it writes:\n{text}\n")
    tell(result, console)
    manifest = folder.made_by() or {}
    if run.config.test and not is_to_be_audited(manifest, run.config) and not of_result(manifest, result):
        looks = command("octavo", "eval", folder.path, "--test")
        console.say(f"the result, on the split that was kept out of everything: {looks}")


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
    diagnostics = [diagnostic.as_dict() for diagnostic in diagnose(facts)]
    result: dict[str, Any] = {"diverged": error.what, "diagnostics": diagnostics}
    result["next"] = next_step(folder, recipe, diagnostics)
    result["verdict"] = [diagnostic["sentence"] for diagnostic in diagnostics]
    report(folder, result)


def report(folder: RunFolder, result: dict[str, Any]) -> None:
    """Write evaluation.json and the page."""
    with storage_errors(folder.path):
        replace_text(folder.evaluation, json_text(result, indent=1))
        write_report(folder.path, ReportData.from_run(folder.path))


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


def against_source(result: dict[str, Any], unit: Unit = TEXT) -> str:
    """How far a loss is above that of the source, which knows the probability of what it wrote. The distance is taken
    on the same documents: these may be a little harder or easier than others.
    """
    entropy = result["source_entropy"]
    floor = result.get("source_loss", entropy)
    above = result["val_loss"] - floor
    share = f" ({above / floor:.1%})" if floor and not unit.density else ""
    limit = f"The source's own entropy is {entropy:.4f} {unit}, a limit that no model can beat"
    if f"{floor:.4f}" == f"{entropy:.4f}":
        return f"{limit}; this one is {above:.4f}{share} above it."
    return (
        f"{limit} on average; on these documents its own loss is {floor:.4f}, and this model is "
        f"{above:.4f}{share} above that."
    )


def verdict(result: dict[str, Any], unit: Unit = TEXT) -> list[str]:
    """What the figures say, a sentence each. `unit`: of the loss."""
    said = [*stored.said(result), standing(result)]
    if "counted" in result:
        said.append(attribution.said(result["counted"]))
    if records := result.get("records"):
        said.append(
            f"That is {records['nats']:.2f} nats per record of {records['symbols']:,.0f} symbols, "
            f"{records['bits_per_symbol']:.4f} bits per symbol."
        )
    if "source_entropy" in result:
        said.append(against_source(result, unit))
    if "stories" in result:
        stories = result["stories"]
        how = ", ".join(
            f"{name}={value}"
            for name, value in stories["sampling"].items()
            if value != getattr(Sampling(), name)
        )
        drawn = f" (drawn with {how})" if how else ""
        said.append(
            f"{stories['passed']} of {stories['written']} stories that it wrote{drawn} are good pidgin."
        )
    if "wishes" in result:
        wishes = result["wishes"]
        before = f", before the tuning {wishes['before']['mean']:.0%}" if "before" in wishes else ""
        said.append(
            f"It keeps {wishes['kept']['mean']:.0%} of the wishes in {wishes['asked']} combinations that it never saw"
            f"{before}; {wishes['all_kept']['mean']:.0%} of the stories keep all."
        )
    said += [*preference_metrics.said(result), *answer_metrics.said(result)]
    if "cost" in result:
        said.append(cost_sentences(result["cost"]))
    if "validity" in result:
        said.append(validity.said(result["validity"]))
    said += [diagnostic["sentence"] for diagnostic in result["diagnostics"]]
    seconds = result["seconds"]
    first = "" if seconds["first_loss"] is None else f", the first loss after {seconds['first_loss']:.1f} s"
    own = f" and {seconds['teachers']:.0f} s that of its teachers" if "teachers" in seconds else ""
    said.append(
        f"{seconds['in_all']:.0f} s in all, {seconds['training']:.0f} s of them training{own}{first}."
    )
    return said


def standing(result: dict[str, Any]) -> str:
    """The loss, and which simple means it beats and which it does not."""
    names = {name: name for name in result["baselines"]} | {
        "uniform": "guessing",
        "coin": "a coin",
        "unigram": "unigram",
        "bigram": "bigram",
        "trigram": "trigram",
        "ngram": "{order}-gram",
        "gzip": "gzip",
        "xz": "xz",
        "xz_given_train": "xz after the training text",
        "gzip_symbols": "gzip of the symbols as bytes",
        "png": "PNG files",
        "start": "what it started from",
    }
    beaten: dict[bool, list[str]] = {True: [], False: []}
    for key, name in names.items():
        baseline = result["baselines"].get(key)
        by = "bits_per_byte" if baseline and baseline["loss"] is None else "loss"
        own = result.get("val_loss" if by == "loss" else by)
        if baseline and own is not None:
            beaten[own < baseline[by]].append(name.format(order=baseline.get("order")))
    words = {True: "better than", False: "not better than"}
    said = [f"{words[how]} {listed(found)}" for how, found in beaten.items() if found]
    figures = f"Validation loss {result['val_loss']:.4f} {result.get('unit', TEXT)}"
    if "forecast" in result:
        figures += ", one step ahead"
    if "bits_per_byte" in result:
        figures += f", {result['bits_per_byte']:.3f} bits per byte"
    return f"{figures}: {', '.join(said)}." if said else f"{figures}."
