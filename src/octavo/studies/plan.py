"""From a study to its runs: texts prepared, lengths fixed by the budget, every run's recipe, and what it will cost."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from octavo.config import Recipe, apply_value, check
from octavo.data import Dataset
from octavo.errors import InputError, OctavoError
from octavo.generation import Engine
from octavo.model.base import build_model
from octavo.planning.plan import counted, step_tokens, timed
from octavo.run.data import build_batches, build_dataset, period, total_steps
from octavo.run.finetune import ready_tokenizer
from octavo.studies.job import Job
from octavo.studies.resolve import variant_recipe, variant_tree
from octavo.studies.spec import BASELINE, Change, Study, problems_error
from octavo.task import task_of
from octavo.util.memory import available_memory
from octavo.util.terminal import Console

CURVE_POINTS = 20  # evaluations of a run on its way
LEAST_CURVE_TOKENS = 4096
CURVE_SHARE = 64  # one evaluation on the way reads this part of what the run is trained on
PROCESS_BYTES = 500 * 2**20  # Python with torch, before any model
FIXED_SECONDS = 5.0  # of a run, for its text, judgement and report
REPORT_BYTES = 400_000


@dataclass(frozen=True)
class Facts:
    """What planning learned about a variant."""

    recipe: Recipe
    dataset: Dataset
    own_steps: int  # by its recipe alone
    epoch: int | None  # steps of one pass over the text, where batches have passes
    step_tokens: int
    step_positions: int  # what the model computes; of a prefix only the last position is a token learned
    token_flops: int
    vocab_size: int
    token_bytes: float


def plan_study(
    study: Study, console: Console, *, known: Study | None = None
) -> tuple[Study, dict[str, Facts]]:
    """The study with every variant's number of steps, and what was learned about each.

    `known` is what stands in the study's folder already: measured lengths are taken from it. Raises ConfigError with
    everything that is wrong with any variant, before anything runs.
    """
    if study.before and study.folder is None:
        names = ", ".join(one.name for one in study.before)
        raise InputError(
            f"The runs of {study.name} start from others that it makes first ({names}); what they cost is not known "
            "before those are there.",
            remedy="run it (octavo study run): it can be stopped, and the same command goes on",
        )
    study = pinned(study)
    problems: list[str] = []
    facts: dict[str, Facts] = {}
    datasets: dict[str, Dataset] = {}
    for variant in study.variants:
        try:
            facts[variant.slug] = _facts(variant_recipe(study, variant, study.seeds[0]), datasets, console)
        except OctavoError as error:
            whose = "the baseline" if variant.slug == BASELINE else variant.name
            problems.append(f"{whose}: {error.what}")
    if problems:
        raise problems_error(problems)
    measured = known if known is not None and known.budget == study.budget else study
    steps = {
        variant.slug: _steps(study, variant, facts, measured.steps.get(variant.slug), console)
        for variant in study.variants
    }
    data = {slug: fact.dataset.manifest["text"] for slug, fact in facts.items()}
    return dataclasses.replace(study, steps=steps, data=data), facts


def pinned(study: Study) -> Study:
    """The study with device, precision and threads fixed for all runs, so that they can be compared."""
    from octavo.training.device import accelerator, fast_bfloat16

    tree = variant_tree(study, Change(BASELINE, BASELINE))
    training = check(tree).training
    device = (accelerator() or "cpu") if training.device == "auto" else training.device
    apply_value(tree, "training.device", device)
    if training.precision == "auto":
        import torch

        fast = device != "cpu" and fast_bfloat16(torch.device(device))
        apply_value(tree, "training.precision", "bfloat16" if fast else "float32")
    if training.threads is None:
        apply_value(tree, "training.threads", 1)
    return dataclasses.replace(study, recipe=tree)


def _facts(recipe: Recipe, datasets: dict[str, Dataset], console: Console) -> Facts:
    """Build a variant's dataset (each once) and batches, and try its model and prompt."""
    deciding = ("corpus", "cleaning", "split", "validation", "test", "tokenizer")
    tree = recipe.model_dump(mode="json")
    key = json.dumps([*(tree.get(name) for name in deciding), tree["training"]["start_from"]], sort_keys=True)
    if key not in datasets:
        datasets[key] = build_dataset(recipe, console, ready_tokenizer(recipe))
    dataset = datasets[key]
    batches = build_batches(recipe, dataset, console)
    vocab_size = dataset.tokenizer.vocab_size
    model = build_model(recipe.model, vocab_size=vocab_size, seed=recipe.seed)
    for prompt in task_of(recipe).prompts(recipe, dataset, model.context)[0]:
        Engine(model, dataset.tokenizer).prompt_ids(prompt)
    training = recipe.training
    return Facts(
        recipe=recipe,
        dataset=dataset,
        own_steps=total_steps(recipe, batches),
        epoch=batches.steps_per_epoch,
        step_tokens=step_tokens(recipe),
        step_positions=training.accumulation * training.batch * recipe.model.context,
        token_flops=recipe.model.training_flops(vocab_size=vocab_size),
        vocab_size=vocab_size,
        token_bytes=dataset.train.bytes / max(1, len(dataset.train.tokens)),
    )


def _steps(
    study: Study, variant: Change, facts: dict[str, Facts], measured: int | None, console: Console
) -> int:
    """How long a variant's runs are: its own setting, else the budget, else its recipe."""
    fact, budget = facts[variant.slug], variant.budget or study.budget
    own = {"training.steps", "training.epochs", "training.passes", "training"} & set(variant.settings)
    if own or not budget:
        return fact.own_steps
    ((kind, amount),) = budget.items()
    if kind == "steps":
        return amount
    if kind == "tokens":
        return max(1, round(amount / fact.step_tokens))
    if kind == "bytes":
        if amount != BASELINE:
            whole = amount
        else:
            base = facts[BASELINE]
            whole = _steps_of_baseline(study, facts, console) * base.step_tokens * base.token_bytes
        return max(1, round(whole / (fact.step_tokens * fact.token_bytes)))
    if kind == "compute":
        base = facts[BASELINE]
        steps = _steps_of_baseline(study, facts, console) if amount == BASELINE else 0
        whole = steps * base.step_positions * base.token_flops if amount == BASELINE else amount
        return max(1, round(whole / (fact.step_positions * fact.token_flops)))
    if measured is not None:
        return measured
    took = timed(fact.recipe, vocab_size=fact.vocab_size, console=Console(quiet=True), repeats=9)
    steps = max(1, round(amount / took.step_seconds))
    console.say(f"{variant.name}: {steps:,} steps in {amount:g} s")
    return steps


def _steps_of_baseline(study: Study, facts: dict[str, Facts], console: Console) -> int:
    """Steps of a run of the baseline: in its own length or, where the study's budget does not refer to the baseline
    itself, in that."""
    refers = BASELINE in study.budget.values() or "seconds" in study.budget
    if refers:
        return facts[BASELINE].own_steps
    return _steps(study, Change(BASELINE, BASELINE), facts, None, console)


def run_recipe(study: Study, variant: Change, seed: int) -> Recipe:
    """The recipe of one run: a pure function of the planned study."""
    tree = variant_tree(study, variant, seed)
    steps = study.steps[variant.slug]
    tokens = study.steps[BASELINE] * step_tokens(variant_recipe(study, Change(BASELINE, BASELINE)))
    apply_value(tree, "seed", seed)
    apply_value(tree, "training.epochs", None)
    apply_value(tree, "training.passes", None)
    apply_value(tree, "training.steps", steps)
    row = max(1, steps // 100)
    unless_given = {
        "training.keep": 1,
        "report.explainer": False,
        "training.checkpoint_every": math.ceil(steps / 4),
        "evaluation.every": row * max(1, round(steps / CURVE_POINTS / row)),
        "evaluation.tokens": max(LEAST_CURVE_TOKENS, tokens // CURVE_SHARE),
        "sampling.every": 0,
        "logging.every": row,
    }
    given = {*study.settings, *variant.settings}
    for key, value in unless_given.items():
        if not given & {key, key.partition(".")[0]}:
            apply_value(tree, key, value)
    return check(tree)


def jobs_of(study: Study, out: Path) -> list[Job]:
    """All runs: the baseline first, then the changes seed by seed, then the baseline's further seeds."""
    base, *changes = study.variants
    order: list[tuple[Change, int]] = [(base, seed) for seed in study.seeds]
    order += [(change, seed) for seed in study.seeds for change in changes]
    order += [(base, seed) for seed in study.noise_seeds]
    return [
        Job(
            change=variant.name,
            slug=variant.slug,
            seed=seed,
            folder=str(run_path(out, variant.slug, seed)),
            recipe=run_recipe(study, variant, seed).model_dump(mode="json"),
            steps=study.steps[variant.slug],
            judge=study.judge,
            rival=str(run_path(out, BASELINE, seed))
            if study.stop_hopeless and variant.slug != BASELINE
            else None,
            hopeless=study.stop_hopeless.model_dump() if study.stop_hopeless else None,
        )
        for variant, seed in order
    ]


def run_path(out: Path, slug: str, seed: int) -> Path:
    """Folder of a variant's run with a seed."""
    return out / "runs" / slug / f"seed-{seed}"


def prepare_baselines(facts: dict[str, Facts], console: Console) -> None:
    """The baselines of each text, computed once and not by every run at the same moment."""
    seen: set[Path] = set()
    for fact in facts.values():
        if fact.dataset.folder not in seen:
            seen.add(fact.dataset.folder)
            task_of(fact.recipe).cached_baselines(fact.dataset, fact.recipe, console)


def memory_of(fact: Facts) -> int:
    """Bytes that a process needs to train a variant on the CPU."""
    return PROCESS_BYTES + counted(fact.recipe, vocab_size=fact.vocab_size).memory.total


def side_by_side(facts: dict[str, Facts], wanted: int | None, cores: int) -> tuple[int, int]:
    """How many runs at a time, and threads of each; as many as cores and memory allow, or as wanted."""
    threads = max(fact.recipe.training.threads or 1 for fact in facts.values())
    if wanted is not None:
        return wanted, threads
    if any(fact.recipe.training.device != "cpu" for fact in facts.values()):
        return 1, threads  # an accelerator serves one run at its full speed
    free = available_memory()
    by_memory = cores if free is None else int(0.9 * free / max(memory_of(fact) for fact in facts.values()))
    return max(1, min(cores // threads, by_memory)), threads


@dataclass(frozen=True)
class VariantPrice:
    """What one variant will cost: `runs` of so many steps; seconds, memory and disk of one."""

    variant: str
    parameters: int
    steps: int
    tokens: int
    flops: float
    runs: int
    step_seconds: float
    seconds: float
    memory_bytes: int
    disk_bytes: int


@dataclass(frozen=True)
class Price:
    """What a study will cost, in all and by variant."""

    study: str
    metric: str
    runs: int
    seeds: list[int]
    noise_seeds: list[int]
    side_by_side: int
    hours: float
    disk_bytes: int
    variants: list[VariantPrice]


def price(study: Study, facts: dict[str, Facts], jobs: int, console: Console) -> Price:
    """Time one step of each variant."""
    rows = list(_prices(study, facts, console))
    seconds = sum(row.seconds * row.runs for row in rows)
    return Price(
        study=study.name,
        metric=study.metric,
        runs=sum(row.runs for row in rows),
        seeds=list(study.seeds),
        noise_seeds=list(study.noise_seeds),
        side_by_side=jobs,
        hours=seconds / jobs / 3600,
        disk_bytes=sum(row.disk_bytes * row.runs for row in rows),
        variants=rows,
    )


def _prices(study: Study, facts: dict[str, Facts], console: Console) -> Iterator[VariantPrice]:
    for variant in study.variants:
        fact = facts[variant.slug]
        recipe = run_recipe(study, variant, study.seeds[0])
        counts = counted(recipe, vocab_size=fact.vocab_size)
        step = timed(recipe, vocab_size=fact.vocab_size, console=Console(quiet=True)).step_seconds
        steps, validation = study.steps[variant.slug], len(fact.dataset.validation.tokens)
        evaluations = math.ceil(steps / period(recipe.evaluation.every, steps, fact.epoch))
        # The judgement of the best weights, of the last, and of the untrained ones read the whole split.
        read = evaluations * min(recipe.evaluation.tokens or validation, validation) + 3 * validation
        seconds = steps * step + read * step / fact.step_positions / 3 + FIXED_SECONDS
        console.say(f"{variant.name}: {step * 1000:.1f} ms a step")
        yield VariantPrice(
            variant=variant.name,
            parameters=counts.parameters,
            steps=steps,
            tokens=steps * fact.step_tokens,
            flops=float(steps * fact.step_positions * fact.token_flops),
            runs=len(study.seeds_of(variant)),
            step_seconds=step,
            seconds=seconds,
            memory_bytes=memory_of(fact),
            disk_bytes=2 * counts.checkpoint_bytes + REPORT_BYTES,  # the last and the best checkpoint
        )
