"""What a study is: the file that people write, checked strictly, and the study that follows from it.

Words: a *variant* is the baseline or one of the changes; each runs once for every seed.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from octavo.config import Recipe, Strict, override_words, parse_yaml
from octavo.config.load import override_value
from octavo.config.parts import MOST
from octavo.config.plain import shipped_names, shipped_text
from octavo.errors import ConfigError
from octavo.studies.expectation import Expected
from octavo.studies.measures import Metric
from octavo.task import Task
from octavo.training.objective import TEXT, Unit
from octavo.util.files import no_device

# The shipped studies, and study files found by name or path.


def study_names() -> list[str]:
    """The shipped studies, in alphabetical order."""
    return shipped_names("octavo.studies")


def study_text(study: str | Path) -> str:
    """The YAML of a shipped study, or of a study file.

    Raises ConfigError when there is neither.
    """
    return shipped_text("study", study, "octavo.studies", listed_by="octavo study list")


BASELINE = "baseline"
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Seeds = Annotated[int, Field(ge=1, le=1000)] | Annotated[list[Seed], Field(min_length=1)]


class Budget(Strict):
    """What every run may spend. Give one of them; without any, each run has its recipe's own length."""

    steps: int | None = Field(None, ge=1, le=MOST)
    """Optimizer steps."""
    tokens: int | None = Field(None, ge=1, le=2**53)
    """Tokens seen in training."""
    bytes: Literal["baseline"] | Annotated[float, Field(gt=0)] | None = None
    """Bytes of text seen in training, whatever the tokenizer makes of them, or `baseline`: as many as the baseline."""
    seconds: float | None = Field(None, gt=0, le=1e9)
    """Training time; turned into steps once, by timing some steps of each variant."""
    compute: Literal["baseline"] | Annotated[float, Field(gt=0)] | None = None
    """Floating-point operations, or `baseline`: as many as the baseline takes."""

    @model_validator(mode="after")
    def _one(self) -> Budget:
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            raise ValueError(
                f"give one of steps, tokens, bytes, seconds and compute, not {' and '.join(given) or 'none'}"
            )
        return self


class StopHopeless(Strict):
    """Early end of runs that are far behind the baseline's of the same seed."""

    after: float = Field(0.5, gt=0, lt=1)
    """Share of a run after which it is compared."""
    worse_by: float = Field(0.1, gt=0)
    """How far behind, as a share of the baseline's bits per byte at the same share of its run; where the loss is none
    of text, of that loss."""


class Ladder(Strict):
    """The same comparison at several sizes and lengths, where each variant has a learning rate of its own."""

    sizes: dict[str, dict[str, Any]] = Field(min_length=1)
    """What each size is called, and its settings on top of the baseline's."""
    steps: list[Annotated[int, Field(ge=1, le=MOST)]] = Field(min_length=1)
    """Optimizer steps of the runs: the lengths."""
    rates: list[Annotated[float, Field(gt=0, le=1e6)]] = Field([0.3, 1.0, 3.0], min_length=1)
    """Learning rates that each variant tries at each size and length, in multiples of its own."""

    @model_validator(mode="after")
    def _each_once(self) -> Ladder:
        for name, values in (("steps", self.steps), ("rates", self.rates)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name} names a value twice")
        if len(self.sizes) * len(self.steps) < 2:
            raise ValueError("one size and one length are a study; give a second of either")
        slugs = [slug_of(name) for name in self.sizes]
        if len(set(slugs)) < len(slugs):
            raise ValueError("two sizes would share a folder")
        return self


class BeforeEntry(Strict):
    """A run that is made before those that are compared, once for each seed."""

    name: str = Field(min_length=1)
    """What the others call it: before/NAME, wherever a run can be named."""
    recipe: str | dict[str, Any]
    """A recipe's name or file."""
    set: dict[str, Any] = Field(default_factory=dict)
    """`key: value` on top of it."""


class ChangeEntry(Strict):
    """One change as the file states it."""

    name: str = Field(min_length=1)
    """What the change is called in tables."""
    hypothesis: str = Field(min_length=1)
    """What it is expected to do, in one sentence."""
    expect: Expected | None = None
    """The same for the machine, which then says whether the hypothesis held; a size is the change's figure minus the
    baseline's: {bits: [0.01, 0.05]}, or nats, perplexity, points of accuracy."""
    set: dict[str, Any] = Field(default_factory=dict)
    """`key: value` on top of the baseline."""
    text: list[str] | str | None = None
    """Another text for this change."""
    budget: Budget | None = None
    """What its runs may spend, instead of the study's."""


class Resolved(Strict):
    """What a finished study adds to its own file."""

    octavo: str
    baseline: str
    budget: dict[str, Any] = Field(default_factory=dict)
    steps: dict[str, Annotated[int, Field(ge=1, le=MOST)]] = Field(default_factory=dict)
    data: dict[str, str] = Field(default_factory=dict)
    sources: list[str] = Field(default_factory=list)


class StudyFile(Strict):
    """A study file."""

    name: str | None = Field(None, min_length=1)
    """What the study is called; default: the file's name."""
    description: str = ""
    """What it asks, in a sentence or two."""
    finding: str = ""
    """What the report that it follows says; shown next to the verdict."""
    baseline: str | dict[str, Any]
    """A recipe's name or file."""
    set: dict[str, Any] = Field(default_factory=dict)
    """`key: value` on top of the baseline's recipe, for every run."""
    seeds: Seeds = 5
    """How many seeds, or which; every variant runs with each."""
    noise: Annotated[int, Field(ge=0, le=1000)] | list[Seed] | None = None
    """Further seeds of the baseline alone, to measure the noise. Empty: as many as the promised power takes."""
    metric: Metric | None = None
    """The metric that is compared. Empty: bits per byte, or val_loss (in its unit) where the loss is none of text."""
    judge: Literal["last", "best"] = "last"
    """Which weights are compared: the last of the budget, or those with the lowest validation loss."""
    budget: Budget | None = None
    """What every run may spend."""
    changes: list[ChangeEntry] = Field(default_factory=list)
    """What is compared with the baseline."""
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """`key: [values]`; every combination is a change, except the baseline's own."""
    text: list[str] | str | None = None
    """Files or folders, if none are given on the command line."""
    before: list[BeforeEntry] = Field(default_factory=list)
    """Runs that each seed makes first, in this order, such as a model to start from (training.start_from:
    before/NAME) or a learned reward."""
    stop_hopeless: StopHopeless | None = None
    """Stop hopeless runs early; off unless given."""
    smallest_interesting: float | None = Field(None, gt=0)
    """Differences of the metric below this do not matter; `expect: same` holds where all of the interval is below."""
    ladder: Ladder | None = None
    """Repeat the comparison at several sizes and lengths: `octavo study ladder`."""
    resolved: Resolved | None = None
    """What a finished study adds to its own file, so that a repetition has the same number of steps."""


@dataclass(frozen=True)
class Before:
    """A run that each seed makes first: its plain data, in which earlier ones stand as before/NAME, and the same as a
    recipe."""

    name: str
    tree: Mapping[str, Any]
    recipe: Recipe

    @property
    def slug(self) -> str:
        return slug_of(self.name)


@dataclass(frozen=True)
class Change:
    """A variant: its settings on top of the baseline's recipe, and another text where it has one."""

    name: str
    slug: str
    hypothesis: str = ""
    expect: str | Mapping[Any, tuple[float, float]] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    text: tuple[str, ...] | None = None
    budget: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A study whose every run follows from it.

    Attributes:
        baseline: the recipe as the file names it.
        recipe: its tree, with the text and the study's own `settings` in it.
        budget: one entry of Budget, or empty.
        sources: what code it was run by; several where it was resumed by other code.
        folder: where the runs of `before` stand; None: they are not made yet.
        steps, data: by slug, how many steps its runs have and the SHA-256 of its text; filled in by planning.
    """

    name: str
    description: str
    finding: str
    baseline: str
    recipe: Mapping[str, Any]
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    noise_seeds: tuple[int, ...]
    metric: Metric
    judge: Literal["last", "best"]
    budget: Mapping[str, Any]
    changes: tuple[Change, ...]
    text: tuple[str, ...] | None = None
    stop_hopeless: StopHopeless | None = None
    smallest_interesting: float | None = None
    before: tuple[Before, ...] = ()
    folder: Path | None = None
    steps: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    octavo: str = ""
    sources: tuple[str, ...] = ()
    unit: Unit = TEXT
    """Of the loss."""
    task: Task = field(default_factory=Task.usual)

    @property
    def variants(self) -> tuple[Change, ...]:
        """The baseline, then the changes."""
        return (Change(BASELINE, BASELINE), *self.changes)

    def seeds_of(self, variant: Change) -> tuple[int, ...]:
        """The seeds that a variant runs with."""
        return self.seeds + self.noise_seeds if variant.slug == BASELINE else self.seeds


def slug_of(name: str) -> str:
    """A name as a folder: letters, digits, hyphens, at most 100 bytes, which every file system takes."""
    plain = re.sub(r"[^\w.]+", "-", unicodedata.normalize("NFKC", name).lower()).strip("-.")
    return no_device(plain.encode()[:100].decode(errors="ignore").strip("-.") or "change")


def read_study_file(
    study: str | Path | Mapping[str, Any],
    overrides: Iterable[str] = (),
    problems: list[str] | None = None,
) -> tuple[StudyFile, str]:
    """The checked study file by shipped name, path or as plain data, with overrides, and its name.

    Raises ConfigError with every problem of its form at once. With a list of `problems`, they are added to it and the
    entries that have them are left out, so that the rest can be checked too; unless too little is left.
    """
    name = Path(str(study)).stem if isinstance(study, str | Path) else "study"
    tree = parse_yaml(study_text(study), f"Study '{study}'") if isinstance(study, str | Path) else dict(study)
    if not isinstance(tree, dict):
        raise ConfigError(f"Study '{study}' holds no keys; a study is a mapping such as 'baseline: RECIPE'.")
    for override in override_words(overrides):
        apply_study_override(tree, override)
    try:
        file = StudyFile.model_validate(tree)
    except ValidationError as error:
        places: dict[tuple[Any, ...], str] = {}
        for problem in error.errors():  # of a value that may be of several types, one complaint is enough
            places.setdefault(_location(problem["loc"]), _sentence(dict(problem)))
        rest = _without(tree, [problem["loc"] for problem in error.errors()])
        if problems is None or "baseline" not in rest:
            raise problems_error(list(places.values())) from error
        problems += places.values()
        file = StudyFile.model_validate(rest)
    return file, file.name or name


def _without(tree: dict[str, Any], wrong: list[tuple[Any, ...]]) -> dict[str, Any]:
    """A study's plain data without the entries at some places: of the changes single ones, else whole keys."""
    changes = {place[1] for place in wrong if place[0] == "changes" and len(place) > 1}
    keys = {place[0] for place in wrong if place[0] != "changes" or len(place) == 1}
    rest = {key: value for key, value in tree.items() if key not in keys}
    if changes:
        rest["changes"] = [one for number, one in enumerate(tree["changes"]) if number not in changes]
    return rest


def problems_error(problems: list[str]) -> ConfigError:
    """One error that lists them all."""
    head = "One problem in the study:" if len(problems) == 1 else f"{len(problems)} problems in the study:"
    return ConfigError(head, problems=problems)


def apply_study_override(tree: dict[str, Any], override: str) -> None:
    """Set one `key=value` of a study's plain data, in place.

    Keys are the file's own (`seeds`, `budget.steps`, `set.training.batch`), and `changes.NAME.…` or `before.NAME.…`
    with an entry's name or number, from 1.
    """
    key, equals, text = override.partition("=")
    first, _, rest = key.strip().partition(".")
    if not equals or not first:
        raise ConfigError(f"'{override}' is not an override; an override reads key=value.", remedy="seeds=5")
    if first not in StudyFile.model_fields:
        raise ConfigError(_unknown(key.strip(), first, list(StudyFile.model_fields)))
    value = override_value(text, f"The value of '{key}'")
    if not rest:
        tree[first] = value
    elif first == "budget":
        tree[first] = {rest: value}  # another budget takes the place of the file's
    elif first in ("changes", "before"):
        _set_in_entry(tree, first, rest, value)
    else:
        tree[first] = {**(tree.get(first) or {}), rest: value}


def _set_in_entry(tree: dict[str, Any], key: str, rest: str, value: Any) -> None:
    entries = tree[key] if isinstance(tree.get(key), list) else []
    which, _, inner = rest.partition(".")
    names = {slug_of(str(entry.get("name"))): entry for entry in entries if isinstance(entry, dict)}
    found = names.get(slug_of(which))
    if found is None and which.isdecimal() and 0 < int(which) <= len(entries):
        found = entries[int(which) - 1]
    if found is None or not inner:
        raise ConfigError(
            f"{key}.{rest} names no entry of the study's {key}.",
            remedy=f"{key}.NAME.KEY=VALUE, where NAME is one of: {', '.join(names) or 'none'}",
        )
    outer, _, setting = inner.partition(".")
    if setting:
        found[outer] = {**(found.get(outer) or {}), setting: value}
    else:
        found[outer] = value


def _unknown(key: str, last: str, there: list[str]) -> str:
    near = difflib.get_close_matches(last, there, n=1)
    if last in Recipe.model_fields and last != "seed":
        return f"{key} is a setting of the recipe; for every run of the study it is set.{key}"
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(there)}"
    return f"{key} is not an option of a study; {hint}"


def _location(parts: tuple[Any, ...]) -> tuple[str, ...]:
    """The key path as a reader counts, without pydantic's names for the types of a union."""
    types = {"int", "float", "str", "bool"}
    return tuple(
        part if isinstance(part, str) else str(part + 1)
        for part in parts
        if isinstance(part, int) or (re.fullmatch(r"[a-z_][\w.]*", part) and part not in types)
    )


def _sentence(problem: dict[str, Any]) -> str:
    key = ".".join(_location(problem["loc"])) or "the study"
    if problem["type"] == "extra_forbidden":
        holders = {
            "changes": ChangeEntry,
            "before": BeforeEntry,
            "budget": Budget,
            "stop_hopeless": StopHopeless,
            "ladder": Ladder,
        }
        holder = holders.get(str(problem["loc"][0]), StudyFile) if len(problem["loc"]) > 1 else StudyFile
        return _unknown(key, str(problem["loc"][-1]), list(holder.model_fields))
    if problem["type"] == "missing":
        return f"{key} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return f"{key}: {message}"
    return f"{key}: {message[0].lower() + message[1:]}, not {problem.get('input')!r}"
