"""From YAML and `key=value` to a checked `Recipe`: defaults < recipe file < overrides, all problems in one message."""

from __future__ import annotations

import difflib
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy, deepcopy
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from octavo.config.parts import PartOf, command, how_to_load, kinds, parts
from octavo.config.plain import (
    cleaning_steps,
    file_text,
    parse_yaml,
    plain,
    recipe_names,
    recipe_text,
    refuse_what_is_not_plain,
    truths_as_numbers,
)
from octavo.config.schema import Recipe
from octavo.errors import CheckpointError, ConfigError
from octavo.util.files import from_home, is_file, is_folder, kind_of
from octavo.util.records import read_record

ANY_TEXT = {"quick": "seconds", "minute": "a minute or two", "ten-minutes": "ten minutes"}
"""The recipes that are made for any text, and how long each takes on a laptop."""

DEFAULT_RECIPE = "minute"


def stored_tree(path: Path) -> dict[str, Any]:
    """The plain data of a config.yaml. Raises ConfigError if it is damaged."""
    tree = parse_yaml(file_text(path), str(path))
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} holds no settings; the run is damaged.")
    return tree


def stored_recipe(path: Path) -> Recipe:
    """The recipe that a run keeps as config.yaml. Raises ConfigError if it is damaged."""
    tree = stored_tree(path)
    try:
        return check(tree)
    except ConfigError as error:
        remedy = _parts_that_lack(path)
        why = "names parts of a file that is not loaded" if remedy else "is damaged"
        raise ConfigError(f"{path} {why}. {error.what}", remedy=remedy) from error


def _parts_that_lack(config: Path) -> str | None:
    """What to add to the command, where the run of a config.yaml began with files of parts that are not loaded here."""
    for folder in (config.parent, *config.parents[2:3]):  # of a run, or of its checkpoint
        with suppress(CheckpointError):
            described = read_record(folder / "manifest.json").get("parts")
            return how_to_load(described) if isinstance(described, list) else None
    return None


def default_said() -> str:
    """A sentence on the recipe that is used if none is named, and on the others."""
    others = ", ".join(f"{name} for {long}" for name, long in ANY_TEXT.items() if name != DEFAULT_RECIPE)
    return f"recipe: {DEFAULT_RECIPE}, made for any text, {ANY_TEXT[DEFAULT_RECIPE]} on a laptop (or take {others})"


def _lists_named(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A copy with every named list of cleaning steps written out, and the problems found."""
    full, named = dict(tree), tree.get("cleaning")
    if isinstance(named, str):
        try:
            full["cleaning"] = cleaning_steps(named)
        except ConfigError as error:
            del full["cleaning"]
            return full, [f"cleaning: {error.what}"]
    return full, []


def load_recipe(recipe: str | Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """A checked recipe from a shipped name, a file or plain data, with `key=value` overrides on top.

    Raises ConfigError with every problem at once.
    """
    tree = recipe_tree(recipe)
    apply_overrides(tree, overrides)
    return check(tree)


def recipe_tree(recipe: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The plain data, not yet checked, of a shipped recipe, a recipe file, or a mapping (a copy).

    Raises ConfigError if there is none; where a text or a folder stands in the recipe's place, it says how to train
    on that.
    """
    if isinstance(recipe, Mapping):
        return dict(recipe)
    if is_folder(recipe) and str(recipe) not in recipe_names():
        if kind_of(recipe) in ("run", "study"):
            raise ConfigError(
                f"{recipe} is a run or a study, not a recipe.", remedy=_go_on_with(Path(recipe))
            )
        raise ConfigError(f"{recipe} is a folder, not a recipe.", remedy=_train_on(recipe))
    text = may_be_text(recipe)
    remedy = _train_on(recipe) if text else None
    try:
        tree = parse_yaml(recipe_text(recipe), f"Recipe '{recipe}'")
    except ConfigError as error:
        raise ConfigError(error.what, remedy=remedy or error.remedy) from error
    if not isinstance(tree, dict) or (text and not tree.keys() & Recipe.model_fields.keys()):
        raise ConfigError(
            f"Recipe '{recipe}' holds no keys; a recipe is a mapping such as 'training: {{steps: 9}}'.",
            remedy=remedy,
        )
    return tree


def named_start(tree: Mapping[str, Any]) -> Path | None:
    """The run that a recipe's plain data starts from (`training.start_from`); None: from weights drawn at random."""
    training = tree.get("training")
    named = training.get("start_from") if isinstance(training, Mapping) else None
    return from_home(named).absolute() if isinstance(named, str | Path) and str(named) else None


def named_by(overrides: Iterable[str] | Mapping[str, Any]) -> Path | None:
    """The run that a recipe starts from, where overrides alone say it."""
    tree: dict[str, Any] = {}
    for override in override_words(overrides):
        if override_key(override).split(".")[0] == "training":
            apply_override(tree, override)
    return named_start(tree)


def may_be_text(recipe: str | Path) -> bool:
    """Whether a file stands in a recipe's place that is not named like one."""
    return Path(recipe).suffix.lower() not in (".yaml", ".yml") and is_file(recipe)


def _go_on_with(folder: Path) -> str:
    """What may have been meant by a run or a study in a recipe's place."""
    if (folder / "study.yaml").exists():
        resumes = command("octavo", "study", "run", folder / "study.yaml", "--out", folder)
        return f"{resumes}    resumes it"
    resumes = command("octavo", "train", "--out", folder, "--resume")
    another = command("octavo", "train", folder / "config.yaml")
    return f"{resumes}    resumes it; {another}    trains another like it"


def _train_on(text: str | Path) -> str:
    return f"{command('octavo', 'train', '--text', text)}    trains on it"


def check(tree: Mapping[str, Any]) -> Recipe:
    """Validate plain data; raises ConfigError that lists every problem with its place."""
    refuse_what_is_not_plain(tree, "The config")
    full, problems = _lists_named(tree)
    cause, recipe = None, None
    try:
        recipe = Recipe.model_validate(full)
        problems += [f"{place}: true and false are no numbers" for place in truths_as_numbers(full, recipe)]
    except ValidationError as error:
        cause = error
        # A default that follows from another key cannot be found where that is wrong, and is no mistake of its own.
        found = [
            dict(problem) for problem in error.errors() if problem["type"] != "default_factory_not_called"
        ]
        problems += _sentences(full, found)
    if problems or recipe is None:
        head = "One problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ConfigError(f"{head} in the config:", problems=problems) from cause
    return recipe


def to_yaml(recipe: BaseModel | Mapping[str, Any]) -> str:
    """The resolved config, or a tree of plain values, as YAML, in the schema's order."""
    tree = dict(recipe) if isinstance(recipe, Mapping) else recipe.model_dump(mode="json")
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100)


def flatten(recipe: BaseModel) -> dict[str, Any]:
    """The resolved config as `a.b.c` → value."""

    def walk(prefix: str, node: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(node, dict) and node:
            for name, child in node.items():
                yield from walk(f"{prefix}.{name}" if prefix else name, child)
        else:
            yield prefix, node

    return dict(walk("", recipe.model_dump(mode="json")))


def all_keys() -> list[str]:
    """Every key that a recipe can hold, of all parts."""
    return sorted(set(_keys(Recipe, "")))


def _keys(
    config: type[BaseModel], prefix: str, above: frozenset[type[BaseModel]] = frozenset()
) -> Iterator[str]:
    """Of a class and of the parts in it, but for those that it is in itself."""
    above |= {config}
    for name, field in config.model_fields.items():
        yield prefix + name
        room = PartOf.of(field)
        if room:
            inside = f"{prefix}{name}." if room in field.metadata else f"{prefix}{name}.0."
            for part in parts(room.room).values():
                if part not in above:
                    yield from _keys(part, inside, above)
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{prefix}{name}.", above)


def _place(tree: Any, location: tuple[Any, ...]) -> tuple[list[str], type[BaseModel] | None]:
    """Key path of a problem in `tree`, without pydantic's names for types, and the class that holds its last key."""
    path: list[str] = []
    config: type[BaseModel] | None = Recipe
    listed: PartOf | None = None  # of a list of parts, whose place comes next
    for step in location:
        tree = _inside(tree, step)
        if listed is not None:
            path.append(str(step))
            config, listed = listed.named(tree), None
        elif config is not None:
            path.append(str(step))
            config, listed = _below(config, str(step), tree)
        elif isinstance(step, int):  # a place in a list; other steps inside a value are pydantic's types
            path.append(str(step))
    return path, config


def _below(config: type[BaseModel], name: str, value: Any) -> tuple[type[BaseModel] | None, PartOf | None]:
    """The class of a setting's value, or which parts it is a list of."""
    field = config.model_fields.get(name)
    if field is None:
        return None, None
    room = PartOf.of(field)
    if room is not None:
        return (room.named({} if value is None else value), None) if room in field.metadata else (None, room)
    inner = [field.annotation, *get_args(field.annotation)]
    return next((one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)), None), None


def _inside(tree: Any, step: Any) -> Any:
    """What stands in plain data at a key or a place; None where nothing does."""
    try:
        return tree[step]
    except (TypeError, LookupError):
        return None


def _sentences(tree: Mapping[str, Any], problems: list[dict[str, Any]]) -> Iterator[str]:
    """One sentence for each mistake. A value that fits none of its types is one, and pydantic names every type."""
    places: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for problem in problems:
        places.setdefault(tuple(_place(tree, problem["loc"])[0]), []).append(problem)
    for place, (first, *others) in places.items():
        deeper = (other for other in places if len(other) > len(place) > 0 and other[: len(place)] == place)
        if any(deeper):  # one of the types fits, but for what is said there
            continue
        wanted = [re.sub(r"^Input (should be|is not) ", "", _plain(other["msg"])) for other in others]
        yield _sentence(tree, {**first, "msg": ", or ".join([_plain(first["msg"]), *wanted])})


def _plain(message: str) -> str:
    """Pydantic's message without its Python terms."""
    python = (
        r", unable to parse string as an? \w+| after validation, not \d+$| for <class.*| or instance of \w+"
    )
    message = re.sub(python, "", message)
    message = re.sub(r"\d{16,}", lambda digits: f"{float(digits[0]):g}", message)
    return re.sub(r"\b[Tt]uple\b", "list", message)


def _sentence(tree: Mapping[str, Any], problem: dict[str, Any]) -> str:
    location, kind, given = problem["loc"], problem["type"], problem.get("input")
    path, _ = _place(tree, location)
    key = ".".join(path) or "the config"
    if kind == "extra_forbidden":
        _, holder = _place(tree, location[:-1])
        siblings, part = list((holder or Recipe).model_fields), part_at(path[:-1])
        owners = (
            [name for name, other in parts(part.room).items() if path[-1] in other.model_fields]
            if part
            else []
        )
        if owners and "kind" in siblings:
            own = (holder or Recipe).model_fields["kind"].default
            has = "has" if len(owners) == 1 else "have"
            return f"{key} is not an option of {'.'.join(path[:-1])}={own}; {' and '.join(owners)} {has} it"
        named = [full for full in all_keys() if full.rsplit(".", 1)[-1] == path[-1]]
        near = difflib.get_close_matches(path[-1], siblings, n=1, cutoff=0.8 if named else 0.6)
        named = (
            [".".join([*path[:-1], *near]), *named] if near else named
        )  # what stands beside it is likelier
        hint = f"did you mean {' or '.join(named)}?" if named else f"there are: {', '.join(siblings)}"
        return f"{key} is not an option; {hint}"
    if kind in ("union_tag_invalid", "union_tag_not_found", "model_attributes_type"):
        part = part_at(path)
        names = kinds(part.room) if part else []
        wrong = given.get("kind") if isinstance(given, dict) else given
        near = difflib.get_close_matches(str(wrong), names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        what = part.room if part and path[-1].isdigit() else path[-1]
        return f"{key}: there is no {what} '{wrong}'{hint} (there are: {', '.join(names)})"
    message = problem["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{key}: {message}" if path else message
    return f"{key}: {message[0].lower() + message[1:]}, not {reprlib.repr(given)}"


CLOSED_BY = {"[": "]", "{": "}", '"': '"', "'": "'"}


def override_words(overrides: Iterable[str] | Mapping[str, Any]) -> list[str]:
    """Overrides as `key=value` words, whole parts before their options; a mapping has dotted keys."""
    if isinstance(overrides, Mapping):
        overrides = [_word(key, plain(value)) for key, value in overrides.items()]
    return sorted(overrides, key=lambda word: _depth(override_key(word)))


def _word(key: str, value: Any) -> str:
    try:
        return f"{key}={json.dumps(value)}"
    except TypeError as error:
        raise ConfigError(
            f"The value of '{key}' is {value!r}; it must be a number, a text, true or false, or a list or mapping of "
            "these."
        ) from error


def _depth(key: str) -> tuple[int, bool]:
    """Of what a dotted key sets: a part's kind stands for all of it, and comes first. In this order (a stable one) no
    setting silently takes away what another has set."""
    path = key.split(".")
    kind = path[-1] == "kind"
    return len(path) - kind, not kind


def override_key(word: str) -> str:
    """The dotted key of a `key=value` word."""
    return word.partition("=")[0].strip()


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str] | Mapping[str, Any]) -> None:
    """Set what `key=value` words say, or a mapping from dotted keys, in plain data, in place: in any order the same,
    but for a key that is given twice, whose last value counts."""
    for word in override_words(overrides):
        apply_override(tree, word)


def apply_values(tree: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """The same with values that are plain data already."""
    for key in sorted(settings, key=_depth):
        apply_value(tree, key, deepcopy(plain(settings[key])))


def apply_override(tree: dict[str, Any], override: str) -> None:
    """Set one `a.b.c=value` in plain data, in place. Naming another kind of a part drops the old kind's options."""
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise ConfigError(
            f"'{override}' is not an override; an override reads key=value.",
            remedy="for example training.steps=500",
        )
    apply_value(tree, key.strip(), override_value(text, f"The value of '{key}'"))


def override_value(text: str, name: str) -> Any:
    """What stands behind the equals sign: YAML, unless it is plain words. Those may have in them what YAML takes for a
    comment (#1), a mapping (ROMEO:), or the beginning of a quotation ('Tis) or a list ([Chorus] hello)."""
    inside = text.strip()
    first, last = inside[:1], inside[-1:]
    try:
        value = parse_yaml(text, name)
    except ConfigError as error:
        if not isinstance(error.__cause__, yaml.YAMLError) or (
            first in CLOSED_BY and last == CLOSED_BY[first]
        ):
            raise
        return text.strip(" ")
    words = isinstance(value, (str, dict)) and first not in CLOSED_BY
    return text.strip(" ") if words or first == "#" else value


def apply_value(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the dotted `key` to a value in plain data, in place; see `apply_override`."""
    path = key.split(".")
    node: Any = tree
    for number, name in enumerate(path[:-1]):
        place: Any = _index(node, name, key) if isinstance(node, list) else name
        child: Any = node[place] if isinstance(node, list) else node.get(name)
        if isinstance(child, str):
            named_list = path[: number + 1] == ["cleaning"]
            child = cleaning_steps(child) if named_list else {"kind": child}  # else a part in short form
        node[place] = copy(child) if isinstance(child, (dict, list)) else {}
        node = node[place]
    if path[-1] == "kind" and isinstance(node, dict):
        part = part_at(path[:-1])
        if part and node.get("kind", part.default) != value:
            node.clear()
    node[_index(node, path[-1], key) if isinstance(node, list) else path[-1]] = value


def _index(items: list[Any], name: str, key: str) -> int:
    if name.isdecimal() and int(name) < len(items):
        return int(name)
    raise ConfigError(f"{key}: '{name}' is no place in a list of {len(items)}; places are counted from 0.")


def part_at(path: list[str]) -> PartOf | None:
    """Which parts fit at a key path, if parts do."""
    inside: list[Any] = [Recipe]
    field: Any = None
    for name in path:
        if name.isdigit() and field:  # one of a list
            continue
        field = next(
            (kind.model_fields[name] for kind in inside if name in getattr(kind, "model_fields", {})), None
        )
        part = PartOf.of(field) if field else None
        inside = [*parts(part.room).values()] if part else [field.annotation] if field else []
    return PartOf.of(field) if field else None
