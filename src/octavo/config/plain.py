"""Plain data, which is all that configs are made of: numbers, texts, lists and mappings, read from YAML: of the recipes
and lists of cleaning steps that ship with the package, or of a file of the user's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from octavo.errors import ConfigError
from octavo.util.files import is_file

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LARGEST_NUMBER = 2**53
_HALF = re.compile("[\ud800-\udfff]")

DEEPEST, LARGEST = 64, 1_000_000
"""Levels of plain data, and values in it, that a config may have."""


_TAG = "tag:yaml.org,2002:"
_PLAIN = {
    f"{_TAG}bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    f"{_TAG}int": re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z"),
    f"{_TAG}float": re.compile(
        r"(?:(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}


class _Plain:
    """Safe YAML that refuses a key given twice, instead of silently taking the last. It takes less for other things
    than words than PyYAML does, and never more, for that writes our files: 010 is no octal and 1:30 no number of
    seconds, only true and false are truths (`no` is a language), and there are no dates.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class has it
        first: [(tag, _PLAIN.get(tag, pattern)) for tag, pattern in found if tag != f"{_TAG}timestamp"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[attr-defined]
            if not isinstance(key, Hashable):
                continue  # refused below, with its line
            if key in seen:
                raise ConfigError(
                    f"The key '{key}' stands twice, again in line {key_node.start_mark.line + 1}."
                )
            seen.add(key)
        return super().construct_mapping(node, deep)  # type: ignore[misc]


class _Loader(_Plain, yaml.SafeLoader):
    """Says where something is wrong."""


_CSafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _FastLoader(_Plain, _CSafeLoader):
    """libyaml's parser, where PyYAML has it: many times as fast. It descends without a limit, and a process whose stack
    it overruns ends."""


_INDICATORS = re.compile(r"^[ \t?:-]*", re.M)
_SAFELY_DEEP = 500


def _may_be_deep(text: str) -> bool:
    """Whether text may hold more levels of YAML than a stack surely has room for: each is begun by a bracket, or
    further right in its line than the one around it."""
    brackets = text.count("[") + text.count("{")
    return brackets > _SAFELY_DEEP or any(len(one) > _SAFELY_DEEP for one in _INDICATORS.findall(text))


def _load(text: str) -> Any:
    if not _may_be_deep(text):
        try:
            return yaml.load(text, _FastLoader)  # noqa: S506 - a SafeLoader
        except (yaml.YAMLError, ValueError):
            pass  # the other one says where
    return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader


def plain(value: Any) -> Any:
    """A value with numpy's or torch's numbers and arrays in it as Python's."""
    if isinstance(value, Mapping):
        return {name: plain(child) for name, child in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(child) for child in value]
    return str(value) if isinstance(value, Path) else value.tolist() if hasattr(value, "tolist") else value


def parse_yaml(text: str, name: str) -> Any:
    """YAML as plain data: numbers, texts, lists and mappings; `name` says in errors where it came from."""
    try:
        data = _load(text)
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        LookupError,
    ) as error:  # the last three by wrong explicit tags
        raise ConfigError(f"{name} is not valid YAML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply; {DEEPEST} levels are allowed.") from None
    refuse_what_is_not_plain(data, name)
    return data


def refuse_what_is_not_plain(data: Any, name: str) -> None:
    """Raise ConfigError for data that no config can hold: too deep, too large, with half characters in its texts, or
    of other types than YAML's own.
    """
    seen = 0
    left: list[tuple[Any, int]] = [(data, 1)]
    while left:
        value, depth = left.pop()
        seen += 1
        if depth > DEEPEST or seen > LARGEST:
            limit = f"{DEEPEST} levels" if depth > DEEPEST else f"{LARGEST:,} values"
            raise ConfigError(f"{name} is nested too deeply or too large; {limit} are allowed.")
        if isinstance(value, Mapping):
            left += [(child, depth + 1) for pair in value.items() for child in pair]
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            left += [(child, depth + 1) for child in value]
        elif isinstance(value, str):
            if not value.isascii() and _HALF.search(value):
                shown = value.encode("utf-8", "backslashreplace").decode()
                raise ConfigError(f"{name} holds what is not UTF-8 text: '{shown[:200]}'.")
        elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            raise ConfigError(f"{name} holds a number beyond 2^53.")
        elif not isinstance(value, int | float | Path | None):
            raise ConfigError(f"{name} holds {value!r}, which is neither a number nor text, list or mapping.")


def file_text(path: Path) -> str:
    """The text of a file that is YAML. Raises ConfigError if it cannot be read as text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file (UTF-8).") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def truths_as_numbers(data: Any, made: Any, place: str = "") -> Iterator[str]:
    """Where plain data says true or false and a number was made of it, which pydantic does."""
    if isinstance(data, bool) and type(made) in (int, float):
        yield place
    elif isinstance(data, Mapping):
        for name, value in data.items():
            inner = made.get(name) if isinstance(made, Mapping) else getattr(made, str(name), None)
            yield from truths_as_numbers(value, inner, f"{place}.{name}" if place else str(name))
    elif isinstance(data, (list, tuple)) and isinstance(made, (list, tuple)):
        for number, (value, inner) in enumerate(zip(data, made, strict=False)):
            yield from truths_as_numbers(value, inner, f"{place}.{number}")


RECIPES, CLEANING = "octavo.recipes", "octavo.recipes.cleaning"  # packages


def shipped_text(what: str, name: str | Path, package: str, *, listed_by: str) -> str:
    """The YAML of a shipped recipe or study, or of a file.

    Args:
        what: "recipe" or "study".
        name: the shipped one's name, or a file's path.
        package: where the shipped ones lie.
        listed_by: the command that lists them.

    Raises:
        ConfigError: there is neither; it names what comes near.
    """
    names = shipped_names(package)
    if str(name) in names:
        return _folder(package).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    if is_file(name):
        return file_text(Path(name))
    near = difflib.get_close_matches(str(name), names, n=1)
    raise ConfigError(
        f"There is no {what} '{name}': neither a shipped one nor a file."
        + (f" Did you mean '{near[0]}'?" if near else ""),
        remedy=f"{listed_by}    lists the shipped ones",
    )


def _folder(package: str) -> Traversable:
    from importlib import resources  # most commands ask for no recipe

    return resources.files(package)


def shipped_names(package: str) -> list[str]:
    """The YAML files of a package, in alphabetical order."""
    entries = _folder(package).iterdir()
    return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".yaml"))


def recipe_names() -> list[str]:
    """The shipped recipes, in alphabetical order."""
    return shipped_names(RECIPES)


def recipe_text(recipe: str | Path) -> str:
    """The YAML of a shipped recipe, or of a recipe file. Raises ConfigError when there is neither."""
    return shipped_text("recipe", recipe, RECIPES, listed_by="octavo recipes")


def cleaning_names() -> list[str]:
    """The shipped lists of cleaning steps, in alphabetical order."""
    return shipped_names(CLEANING)


def cleaning_steps(name: str | Path) -> list[Any]:
    """The steps, as plain data, of a shipped list, or those of the key `cleaning` in a YAML file.

    Raises ConfigError when there is neither.
    """
    names = cleaning_names()
    if str(name) in names:
        entry = _folder(CLEANING).joinpath(f"{name}.yaml")
        text = entry.read_text(encoding="utf-8")
    elif is_file(name):
        text = recipe_text(Path(name))
    else:
        raise ConfigError(f"Cleaning steps '{name}' not found: name a file or one of {', '.join(names)}.")
    tree = parse_yaml(text, str(name))
    steps = tree.get("cleaning") if isinstance(tree, dict) else None
    if isinstance(steps, str) and steps != str(name) and steps in names:
        return cleaning_steps(steps)
    if not isinstance(steps, list):
        raise ConfigError(f"{name} has no list of steps under the key 'cleaning'.")
    return steps
