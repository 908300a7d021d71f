"""The spec of a corpus to write: who writes, what is asked, what counts as good. Strict, as a recipe
is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from octavo.config import apply_overrides, cleaning_steps, parse_yaml
from octavo.config.parts import PartConfig, PartOf, Strict
from octavo.errors import ConfigError

_COMPARING = ("exact_duplicates", "near_duplicates")  # steps that the store takes over, over all sessions


class Rules(Strict):
    """What a story has to be."""

    checker: Literal["pidgin", "plain"] = "plain"
    """pidgin: vocabulary, length, ending and the grammar of pidgin. plain: vocabulary, length and ending."""
    vocabulary: str = "pidgin"
    """The words that may stand in it: pidgin (the storyteller's), free (any; for a vocabulary that is to grow from the
    stories), or a file with a word a line."""
    words: tuple[int, int] = (60, 160)
    """The fewest and the most words."""
    ending: str = "the end."
    """How it closes; empty: in any way, with a full stop, a question mark or an exclamation mark."""
    strip: tuple[str, ...] = (r"(?s)<think>.*?</think>", r"```\w*")
    """Regular expressions of what is cut out of a reply before anything else."""
    cleaning: tuple[Annotated[PartConfig, PartOf("cleaning")], ...] = Field("pidgin", validate_default=True)
    """Cleaning steps by which a reply becomes a story: a list of them, or the name of a shipped list, such as
    pidgin (report A's); that list's steps against duplicates are left to near_duplicates."""
    repair: tuple[Literal["ending", "repeats"], ...] = ("ending", "repeats")
    """What is put right without asking: ending (what follows it is cut; a missing one is added), repeats (a word
    or mark twice in a row)."""
    tries: int = Field(3, ge=1, le=20)
    """Replies for a story before it is given up; from the second on the writer is told what was wrong."""
    near_duplicates: float = Field(0.7, ge=0, le=1)
    """A story that shares this part of its three-word sequences with another is no new one; 0: not looked at."""

    @field_validator("cleaning", mode="before")
    @classmethod
    def _named_list(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            steps = cleaning_steps(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return [s for s in steps if (s["kind"] if isinstance(s, dict) else s) not in _COMPARING]

    @field_validator("words")
    @classmethod
    def _in_order(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= value[0] <= value[1]:
            raise ValueError("words are the fewest and the most, such as [60, 160]")
        return value

    @model_validator(mode="after")
    def _pidgin_is_closed(self) -> Rules:
        if self.checker == "pidgin" and self.vocabulary == "free":
            raise ValueError(
                "the pidgin checker needs a closed vocabulary; with vocabulary: free use checker: plain"
            )
        return self


class WritingSpec(Strict):
    """A corpus to write."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """Its name, in small letters; the folder is called so."""
    description: str = ""
    """A sentence or two for readers."""
    writers: dict[str, Annotated[PartConfig, PartOf("writer", "endpoint")]] = Field(min_length=1)
    """Who writes, each under a name of your choice; several share the work."""
    prompt: str = "pidgin"
    """The prompt: a shipped one, or a folder with templates that take the place of shipped ones."""
    compare: tuple[str, ...] = ("pidgin", "pidgin-short")
    """The prompts that --compare tries."""
    diversity: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Seeds of diversity: lists such as character, place, want; each story is given one of each."""
    examples: int = Field(2, ge=0, le=20)
    """Stories of the storyteller that the prompt shows."""
    rules: Rules = Field(default_factory=Rules)
    """What a story has to be."""
    max_tokens: int = Field(400, ge=1)
    """Tokens of a reply, at most."""
    temperature: float = Field(1.0, ge=0, le=2)
    """Below 1 safer, above 1 wilder."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Which seeds of diversity the stories get."""
    backoff: float = Field(1.0, gt=0, le=60)
    """Seconds before the first new try after a failure, at most; they double."""
    give_up_after: float = Field(600.0, gt=0)
    """Seconds without one good answer after which a writer is given up."""

    @field_validator("diversity")
    @classmethod
    def _something_in_each(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        empty = [name for name, choices in value.items() if not choices]
        if empty:
            raise ValueError(f"{', '.join(empty)}: a list of seeds needs at least one")
        return value


def spec_names() -> list[str]:
    """The shipped specs, in alphabetical order."""
    entries = resources.files("octavo.llm_corpus").joinpath("specs").iterdir()
    return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".yaml"))


def load_spec(spec: str | Path, overrides: Iterable[str] = ()) -> WritingSpec:
    """A checked spec from a shipped name or a file, with `key=value` overrides on top. Paths in a file are taken from
    its folder. Raises ConfigError with every problem at once."""
    path = Path(spec)
    if str(spec) in spec_names():
        packed = resources.files("octavo.llm_corpus").joinpath("specs", f"{spec}.yaml")
        text, base = packed.read_text(encoding="utf-8"), None
    elif path.is_file():
        try:
            text, base = path.read_text(encoding="utf-8"), path.parent
        except (UnicodeDecodeError, OSError) as error:
            raise ConfigError(f"{path} cannot be read as a spec.") from error
    else:
        near = difflib.get_close_matches(str(spec), spec_names(), n=1)
        raise ConfigError(
            f"There is no spec '{spec}': neither a shipped one nor a file."
            + (f" Did you mean '{near[0]}'?" if near else ""),
            remedy=f"the shipped ones are {', '.join(spec_names())}",
        )
    tree = parse_yaml(text, f"Spec '{spec}'")
    if not isinstance(tree, dict):
        raise ConfigError(f"Spec '{spec}' holds no keys; a spec is a mapping such as 'name: mine'.")
    if base is not None:
        _from_folder(tree, base)
    apply_overrides(tree, overrides)
    return check_spec(tree)


def check_spec(tree: dict[str, Any]) -> WritingSpec:
    """Validate plain data; raises ConfigError that lists every problem with its place."""
    try:
        return WritingSpec.model_validate(tree)
    except ValidationError as error:
        problems = [_sentence(dict(problem)) for problem in error.errors()]
        head = "One problem in the spec:" if len(problems) == 1 else f"{len(problems)} problems in the spec:"
        # Without the original, which repeats what was given: a key?
        raise ConfigError(head, problems=problems) from None


def spec_yaml(spec: WritingSpec) -> str:
    """The resolved spec as YAML."""
    return yaml.safe_dump(spec.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=100)


def _from_folder(tree: dict[str, Any], base: Path) -> None:
    """Paths that stand in the file, from its folder on."""
    rules = tree.get("rules")
    if (
        isinstance(rules, dict)
        and isinstance(rules.get("vocabulary"), str)
        and (base / rules["vocabulary"]).is_file()
    ):
        rules["vocabulary"] = str(base / rules["vocabulary"])
    if isinstance(tree.get("prompt"), str) and (base / tree["prompt"]).is_dir():
        tree["prompt"] = str(base / tree["prompt"])
    if isinstance(tree.get("compare"), list):
        tree["compare"] = [str(base / str(p)) if (base / str(p)).is_dir() else p for p in tree["compare"]]


def _sentence(problem: dict[str, Any]) -> str:
    place = [str(step) for step in problem["loc"]]
    key = ".".join(place) or "the spec"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        holder = Rules if place[0] == "rules" else WritingSpec
        near = difflib.get_close_matches(place[-1], list(holder.model_fields), n=1)
        return f"{key} is not an option" + (
            f"; did you mean {near[0]}?" if near and place[0] != "writers" else ""
        )
    if problem["type"] == "missing":
        return f"{key} is missing"
    return f"{key}: {message[0].lower() + message[1:]}"
