"""Running a study: checked and planned first, then every run that is not done yet, then its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from octavo.config import check, flatten, override_words, stored_recipe
from octavo.errors import ConfigError, InputError, OctavoError
from octavo.run.data import Paths, build_dataset
from octavo.run.finetune import ready_tokenizer
from octavo.run.folder import RunFolder
from octavo.studies.interim_looks import note_look
from octavo.studies.job import Job, outcome_of, settled
from octavo.studies.plan import Price, jobs_of, plan_study, prepare_baselines, price, side_by_side
from octavo.studies.prerequisites import first_jobs, standing
from octavo.studies.provenance import Origins, code_sha256
from octavo.studies.resolve import load_study
from octavo.studies.results import StudyResults, collect, is_study, study_of, write_results, write_study
from octavo.studies.runner import Pool, available_cores
from octavo.studies.spec import Study, slug_of
from octavo.util.files import claim_folder, storage_errors
from octavo.util.terminal import Console


def run_study(
    study: str | Path | Mapping[str, Any],
    text: Paths | None = None,
    out: str | Path | None = None,
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    jobs: int | None = None,
    cluster: str | None = None,
    quiet: bool = False,
    console: Console | None = None,
) -> StudyResults:
    """Run a study, or resume it, and return its results; `out` defaults to studies/<name>.

    `study` is a shipped name, a YAML file or plain data; `text` a path or several; `overrides` are `key=value` strings
    or a mapping, in the file's own keys; `jobs` is how many runs go side by side (default: as many as cores and memory
    allow); `cluster` is the address of a Ray cluster that the runs are sent to; `quiet` says nothing on the way.
    Raises ConfigError with everything that is wrong before the first run, and Interrupted when asked to stop.
    """
    console = console or Console.in_python(quiet=quiet)
    loaded = load_study(study, text, override_words(overrides))
    folder = Path(out) if out is not None else Path("studies") / slug_of(loaded.name)
    return run_resolved(loaded, folder, jobs=jobs, cluster=cluster, console=console)


def run_resolved(
    resolved: Study, folder: Path, *, jobs: int | None, cluster: str | None, console: Console
) -> StudyResults:
    """Run a study that is checked already, or resume it."""
    check_jobs(jobs)
    claim_folder(folder, "a study", is_one=is_study, passing=["log.txt"])
    known = study_of(folder) if is_study(folder) else None
    if resolved.before:
        if cluster is not None:
            raise InputError("A study that makes runs first, for its own to start from, runs on one machine.")
        resolved = made_first(resolved, folder, jobs=jobs, console=console)
    planned, facts = plan_study(resolved, console, known=known)
    wanted = jobs_of(planned, folder.absolute())
    refuse_other_runs(planned, known, wanted, folder)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with RunFolder(folder).lock():
        console.keep_log(folder / "log.txt")
        open_jobs = [job for job in wanted if settled(job) is None]
        code = known.sources if known is not None else ()
        if open_jobs:
            code = tuple(dict.fromkeys((*code, code_sha256())))
        planned = dataclasses.replace(planned, sources=code)
        write_study(planned, folder)
        if open_jobs:
            prepare_baselines(facts, console)
            count, threads = side_by_side(facts, jobs, len(available_cores()))
            console.say(
                f"{len(open_jobs)} of {len(wanted)} runs to do"
                + (f", {min(count, len(open_jobs))} side by side" if cluster is None else f" on {cluster}")
            )
            if cluster is not None:
                from octavo.studies.cluster import Cluster

                performer: Any = Cluster(cluster, threads=threads)
            else:
                performer = Pool(count, threads=threads, logs=folder / "workers")
            performer.perform(open_jobs, console, lambda job, outcome: None)
        results = collect(folder)
        write_results(results)
        if not results.to_come:
            note_look(folder, len(planned.seeds))
    return results


def made_first(resolved: Study, folder: Path, *, jobs: int | None, console: Console) -> Study:
    """The study with the runs that come first in its folder; those that are not there yet are made. Raises InputError
    where one fails, ConfigError where other ones stand there."""
    resolved = standing(resolved, folder)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with RunFolder(folder).lock():
        console.keep_log(folder / "log.txt")
        for before in resolved.before:
            wanted = first_jobs(resolved, before)
            refuse_other_settings(wanted, folder, _changed_texts(before.name, wanted, console))
            open_jobs = [job for job in wanted if settled(job) is None]
            if open_jobs and not is_study(folder):
                write_study(resolved, folder)
            if open_jobs:
                threads = max(job.recipe["training"]["threads"] for job in open_jobs)
                count = jobs or max(1, len(available_cores()) // threads)
                console.say(f"first, {before.name}: {len(open_jobs)} of {len(wanted)} runs to do")
                Pool(count, threads=threads, logs=folder / "workers").perform(
                    open_jobs, console, lambda job, outcome: None
                )
            for job in wanted:
                outcome = outcome_of(Path(job.folder))
                if outcome is None or outcome.status != "done":
                    raise InputError(
                        f"{job.folder}, which others start from, failed: {outcome and outcome.reason}",
                        remedy="the same command tries again",
                    )
    return resolved


def _changed_texts(name: str, jobs: Sequence[Job], console: Console) -> list[str]:
    """What is wrong with runs that come first and are made, where their text is another one now."""
    made = [job for job in jobs if settled(job) is not None]
    if not made:
        return []
    recipe = check(made[0].recipe)  # they differ in their seeds
    text = build_dataset(recipe, console, ready_tokenizer(recipe)).manifest["text"]
    manifests = [RunFolder(Path(job.folder)).made_by() or {} for job in made]
    return [f"{name}: its text has changed"] * any(each["data"]["text"] != text for each in manifests if each)


def price_study(
    study: str | Path | Mapping[str, Any],
    text: Paths | None = None,
    *,
    overrides: Iterable[str] = (),
    jobs: int | None = None,
    console: Console | None = None,
) -> Price:
    """What a study would cost: runs, hours and disk, and a row for each variant. Nothing is run.

    Raises ConfigError with everything that is wrong.
    """
    return price_resolved(
        load_study(study, text, overrides), jobs=jobs, console=console or Console(quiet=True)
    )


def price_resolved(study: Study, *, jobs: int | None, console: Console) -> Price:
    """The same of a study that is checked already."""
    check_jobs(jobs)
    planned, facts = plan_study(study, console)
    count, _ = side_by_side(facts, jobs, len(available_cores()))
    return price(planned, facts, count, console)


def check_jobs(jobs: int | None) -> None:
    """Raise InputError if no run could go at a time."""
    if jobs is not None and jobs < 1:
        raise InputError(f"{jobs} runs side by side are too few; at least one has to run.", remedy="--jobs 1")


def refuse_changed(found: Study, folder: Path, console: Console) -> None:
    """Raise ConfigError if runs that stand in a study's folder are not those of `found`. Nothing is written."""
    known = study_of(folder)
    planned, _ = plan_study(found, console, known=known)
    refuse_other_runs(planned, known, jobs_of(planned, folder.absolute()), folder)


def refuse_other_runs(planned: Study, known: Study | None, jobs: list[Job], folder: Path) -> None:
    """Raise ConfigError if runs that stand in the folder were made with other settings or another text."""
    if known is None:
        return
    changed = [
        f"{variant.name}: its text has changed"
        for variant in planned.variants
        if known.data.get(variant.slug) not in (None, planned.data[variant.slug])
    ]
    refuse_other_settings(jobs, folder, changed)


def refuse_other_settings(jobs: list[Job], folder: Path, problems: Iterable[str] = ()) -> None:
    """Raise ConfigError for `problems`, and for runs that stand in the folder with other settings, or that came from
    what is another one now."""
    problems, origins = list(problems), Origins()
    for job in jobs:
        made = RunFolder(Path(job.folder))
        if not made.config.is_file():
            continue
        try:
            recipe = stored_recipe(made.config)
            came_from = list(origins.changed(made, recipe))
        except OctavoError as error:
            problems.append(f"{job.change}, seed {job.seed}: {error.what}")
            continue
        problems += [f"{job.change}, seed {job.seed} was run with {one}" for one in came_from]
        stored, wanted = flatten(recipe), flatten(check(job.recipe))
        keys = sorted(
            key
            for key in stored.keys() | wanted.keys()
            if key != "description" and stored.get(key) != wanted.get(key)
        )
        if keys:
            listed = ", ".join(f"{key}={stored.get(key)!r} (now {wanted.get(key)!r})" for key in keys)
            problems.append(f"{job.change}, seed {job.seed} was run with {listed}")
    if problems:
        raise ConfigError(
            f"{folder} holds runs of another study:",
            problems=problems[:10],
            remedy="choose another --out, or bring back what the study began with",
        )
