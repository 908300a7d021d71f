"""A ladder: one comparison at several sizes and lengths, each variant at a learning rate of its own.

Words: a *rung* is one size and one length. On each, every variant first tries the learning rates on one seed (the
*sweep*), and then runs with all seeds at the best of them. Both are ordinary studies, in folders of their own.

ladder.yaml   the ladder with everything resolved; it is itself a ladder file
sweeps/RUNG/  studies of one seed, which no verdict rests on
rungs/RUNG/   studies with a verdict and a report each, and where.json: where, token by token, the change is better
report/       the page of all rungs
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from octavo.config import apply_values, check, flatten, override_words
from octavo.errors import ConfigError, InputError
from octavo.run.data import Paths
from octavo.run.folder import RunFolder
from octavo.studies.measures import measure
from octavo.studies.resolve import beside_of, problems_of_variants, resolved, variant_recipe
from octavo.studies.results import StudyResults, collect, is_study, study_tree
from octavo.studies.run import check_jobs, price_resolved, refuse_changed, run_resolved
from octavo.studies.spec import BASELINE, Change, Study, problems_error, read_study_file, slug_of
from octavo.studies.token_comparison import write_where
from octavo.util.files import claim_folder, replace_text, storage_errors
from octavo.util.terminal import Console

LADDER = "ladder.yaml"
SWEEP_SEED = 1_000_003
"""Of the runs that choose a rate: not one of those that the verdict rests on, or it would favour the luckier rate."""


@dataclass(frozen=True)
class Rung:
    """One size and one length."""

    size: str
    steps: int

    @property
    def slug(self) -> str:
        return f"{slug_of(self.size)}-{self.steps}-steps"


@dataclass(frozen=True)
class Ladder:
    """A checked ladder.

    Attributes:
        study: what is compared, still without size and length.
        sizes: the settings of each.
        rates: what every variant's own learning rates are multiplied with.
    """

    study: Study
    sizes: Mapping[str, Mapping[str, Any]]
    steps: tuple[int, ...]
    rates: tuple[float, ...]

    @property
    def rungs(self) -> list[Rung]:
        """Size by size, the shortest length first."""
        return [Rung(size, steps) for size in self.sizes for steps in sorted(self.steps)]

    def at(self, rung: Rung) -> Study:
        """The study on a rung, with every variant's own learning rate as the file has it."""
        study, settings = self.study, self.sizes[rung.size]
        return dataclasses.replace(
            study,
            name=f"{study.name}, {rung.size}, {rung.steps:,} steps",
            recipe=_with(study.recipe, settings),
            settings={**study.settings, **settings},
            budget={"steps": rung.steps},
            steps={},
            data={},
        )

    def sweep(self, rung: Rung) -> Study:
        """Every variant with every rate, on one seed."""
        study = self.at(rung)
        first, *others = [(variant, rate) for variant in study.variants for rate in self.rates]
        rated = rates_of(study, *first)
        return dataclasses.replace(
            study,
            name=f"{study.name}: learning rates",
            recipe=_with(study.recipe, rated),
            settings={**study.settings, **rated},
            changes=tuple(
                Change(
                    f"{variant.name}, rate × {rate:g}",
                    f"{variant.slug}-rate-{rate:g}",
                    "This learning rate is the best for it.",
                    settings={**variant.settings, **rates_of(study, variant, rate)},
                    text=variant.text,
                    budget=variant.budget,
                )
                for variant, rate in others
            ),
            seeds=(SWEEP_SEED,),
            noise_seeds=(),
            stop_hopeless=None,
        )

    def swept(self, sweep: StudyResults) -> dict[str, dict[float, float]]:
        """By variant: what each rate came to in a sweep, as far as it is finished; infinity where it failed."""
        sign = 1 if measure(self.study.metric).lower_is_better else -1
        by_rate: dict[str, dict[float, float]] = {}
        for variant in self.study.variants:
            by_rate[variant.slug] = {}
            for rate in self.rates:
                first = (variant.slug, rate) == (BASELINE, self.rates[0])
                for run in sweep.of(BASELINE if first else f"{variant.slug}-rate-{rate:g}"):
                    value = math.inf if run.metric is None else sign * run.metric
                    by_rate[variant.slug][rate] = value if math.isfinite(value) else math.inf
        return by_rate

    def best(self, sweep: StudyResults | None) -> dict[str, float]:
        """Each variant's best rate; of equal ones the smallest, so that what always fails fails at the mildest."""
        if sweep is None:
            return {variant.slug: self.rates[0] for variant in self.study.variants}
        values = self.swept(sweep)
        return {slug: min(sorted(each), key=each.__getitem__) for slug, each in values.items() if each}

    def chosen(self, rung: Rung, rates: Mapping[str, float]) -> Study:
        """The study on a rung, each variant at its rate."""
        study = self.at(rung)
        base = rates_of(study, Change(BASELINE, BASELINE), rates[BASELINE])
        return dataclasses.replace(
            study,
            recipe=_with(study.recipe, base),
            settings={**study.settings, **base},
            changes=tuple(
                dataclasses.replace(
                    change, settings={**change.settings, **rates_of(study, change, rates[change.slug])}
                )
                for change in study.changes
            ),
        )


def rates_of(study: Study, variant: Change, rate: float) -> dict[str, float]:
    """A variant's learning rates multiplied: those of all groups of its optimizer, which end in `rate`."""
    return {
        key: float(f"{value * rate:.6g}")
        for key, value in flatten(variant_recipe(study, variant)).items()
        if key.startswith("training.optimizer.") and key.endswith("rate") and value
    }


def _with(tree: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    tree = copy.deepcopy(dict(tree))
    apply_values(tree, settings)
    return tree


def load_ladder(
    ladder: str | Path | Mapping[str, Any], text: Paths | None = None, overrides: Iterable[str] = ()
) -> Ladder:
    """A checked ladder by shipped name, path or as plain data. Raises ConfigError with every problem at once."""
    problems: list[str] = []
    file, name = read_study_file(ladder, overrides, problems)
    if problems:
        raise problems_error(problems)
    if file.ladder is None:
        raise ConfigError(f"'{name}' is no ladder: it has no sizes and lengths.", remedy="octavo study run")
    if file.budget is not None:
        problems.append("budget: a ladder has its lengths in ladder.steps")
    study = resolved(file, name, beside_of(ladder), text, problems)
    loaded = Ladder(study, file.ladder.sizes, tuple(file.ladder.steps), tuple(file.ladder.rates))
    if SWEEP_SEED in (*study.seeds, *study.noise_seeds):
        problems.append(f"seeds: {SWEEP_SEED} is the one that rates are chosen on")
    for size in loaded.sizes:
        if "seed" in loaded.sizes[size]:
            problems.append(f"ladder.sizes.{size}: the study gives every run its seed; see seeds")
        at = loaded.at(Rung(size, loaded.steps[0]))
        try:
            baseline = check(dict(at.recipe))
            problems += (f"{size}: {problem}" for problem in problems_of_variants(at, baseline))
        except ConfigError as error:
            problems += [f"ladder.sizes.{size}: {problem}" for problem in error.problems or [error.what]]
    if problems:
        raise problems_error(problems)
    return loaded


def run_ladder(
    ladder: str | Path | Mapping[str, Any],
    text: Paths | None = None,
    out: str | Path | None = None,
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    jobs: int | None = None,
    cluster: str | None = None,
    quiet: bool = False,
    console: Console | None = None,
) -> Path:
    """Run a ladder, or resume it, and return its folder; what the arguments mean is said at `run_study`.

    Raises ConfigError with everything that is wrong before the first run, and Interrupted when asked to stop.
    """
    console = console or Console.in_python(quiet=quiet)
    check_jobs(jobs)
    loaded = load_ladder(ladder, text, override_words(overrides))
    folder = Path(out) if out is not None else Path("studies") / slug_of(loaded.study.name)
    claim_folder(folder, "a ladder", is_one=is_ladder, passing=["log.txt"])
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with RunFolder(folder).lock():
        if is_ladder(folder) and (folder / LADDER).read_text(encoding="utf-8") != ladder_text(loaded):
            refuse_another(loaded, folder, console)
        replace_text(folder / LADDER, ladder_text(loaded))
        for number, rung in enumerate(loaded.rungs, 1):
            console.say(f"rung {number} of {len(loaded.rungs)}: {rung.size}, {rung.steps:,} steps")
            sweep = None
            if len(loaded.rates) > 1:
                tried = folder / "sweeps" / rung.slug
                sweep = run_resolved(loaded.sweep(rung), tried, jobs=jobs, cluster=cluster, console=console)
            at_best = loaded.chosen(rung, loaded.best(sweep))
            there = folder / "rungs" / rung.slug
            results = run_resolved(at_best, there, jobs=jobs, cluster=cluster, console=console)
            write_where(results, console)
    return folder


def refuse_another(loaded: Ladder, folder: Path, console: Console) -> None:
    """Raise ConfigError where runs that stand in the folder are of another ladder, before anything is written."""
    standing = {path.name for path in (*folder.glob("rungs/*"), *folder.glob("sweeps/*")) if is_study(path)}
    if standing and standing.isdisjoint(rung.slug for rung in loaded.rungs):
        listed = ", ".join(sorted(standing))
        raise ConfigError(f"{folder} holds rungs of another ladder: {listed}.", remedy="choose another --out")
    for rung in loaded.rungs:
        tried, there, sweep = folder / "sweeps" / rung.slug, folder / "rungs" / rung.slug, None
        if len(loaded.rates) > 1 and is_study(tried):
            refuse_changed(loaded.sweep(rung), tried, console)
            sweep = collect(tried)
        if is_study(there) and (len(loaded.rates) == 1 or sweep is not None):
            refuse_changed(loaded.chosen(rung, loaded.best(sweep)), there, console)


@dataclass(frozen=True)
class RungPrice:
    """What one rung will cost, with what is tried on it."""

    size: str
    steps: int
    parameters: int
    runs: int
    hours: float
    disk_bytes: float
    side_by_side: int


@dataclass(frozen=True)
class LadderPrice:
    """What a ladder will cost, in all and by rung."""

    ladder: str
    runs: int
    hours: float
    disk_bytes: float
    side_by_side: int
    rungs: list[RungPrice]


def price_ladder(
    ladder: str | Path | Mapping[str, Any],
    text: Paths | None = None,
    *,
    overrides: Iterable[str] = (),
    jobs: int | None = None,
) -> LadderPrice:
    """What a ladder would cost. One step of every variant is timed on every rung; nothing is run."""
    loaded = load_ladder(ladder, text, overrides)
    rows = []
    for rung in loaded.rungs:
        price = price_resolved(loaded.at(rung), jobs=jobs, console=Console(quiet=True))
        tried = len(loaded.rates) * len(loaded.study.variants) if len(loaded.rates) > 1 else 0
        swept = sum(row.seconds for row in price.variants) * (tried / len(price.variants))
        rows.append(
            RungPrice(
                size=rung.size,
                steps=rung.steps,
                parameters=price.variants[0].parameters,
                runs=price.runs + tried,
                hours=price.hours + swept / price.side_by_side / 3600,
                disk_bytes=price.disk_bytes * (1 + tried / price.runs),
                side_by_side=price.side_by_side,
            )
        )
    return LadderPrice(
        ladder=loaded.study.name,
        runs=sum(row.runs for row in rows),
        hours=sum(row.hours for row in rows),
        disk_bytes=sum(row.disk_bytes for row in rows),
        side_by_side=rows[0].side_by_side,
        rungs=rows,
    )


def ladder_text(ladder: Ladder) -> str:
    """The ladder as a file."""
    sizes = {name: dict(settings) for name, settings in ladder.sizes.items()}
    own = {"sizes": sizes, "steps": list(ladder.steps), "rates": list(ladder.rates)}
    tree = {**study_tree(ladder.study), "ladder": own}
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100)


def is_ladder(folder: Path) -> bool:
    """Whether a ladder was run in a folder."""
    return (folder / LADDER).is_file()


def ladder_of(folder: Path) -> Ladder:
    """The ladder that a folder holds. Raises InputError if there is none."""
    if not is_ladder(folder):
        what = "is not a ladder's folder" if folder.exists() else "does not exist"
        raise InputError(
            f"{folder} {what}.", remedy="octavo study ladder STUDY --text PATH --out DIR makes one"
        )
    return load_ladder(folder / LADDER)


def collected(folder: Path, kind: str, rung: Rung) -> StudyResults | None:
    """The results of a rung so far: of its `sweeps` or of its `rungs`."""
    path = folder / kind / rung.slug
    return collect(path) if is_study(path) else None
