"""How much a reader has to hold in mind: files on the way of a text, sizes, repetitions, questions about tasks.

    python benchmarks/structure.py                                   # this checkout
    python benchmarks/structure.py /tmp/other --verbose              # another one; with the places behind each figure
    python benchmarks/structure.py --still                           # nothing is trained: only what the sources say

A file is executed if one of its functions runs, at any time but while modules are imported. The first function of a
verb starts the count, so that parsing the command line is left out. The last line is a JSON document.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from common import finish, print_table

HERE = Path(__file__).resolve().parents[1]
SENTENCES = (
    "the brown fox jumps over the lazy dog.\n",
    "a dog runs from the old cat!\n",
    "who saw the fox?\n",
    "nobody saw it, said the cat.\n",
)

# ---------------------------------------------------------------- questions about the kind of task

CORE = (
    *(
        "data",
        "model",
        "ngram",
        "training",
        "generation",
        "evaluation",
        "report",
        "run",
        "planning",
        "studies",
    ),
    *("dataset", "runs"),
)
"""Rooms that know no task, by their names of today and of earlier."""
ASKED = {
    "whether it is text": re.compile(r"\bunit\.text$"),
    "whether it has pairs": re.compile(r"\bbatches\.pairs$|\bgives_pairs$"),
    "whether it holds numbers": re.compile(r"\b(corpus|source|config|batches)\.numbers$"),
    "the form of its records": re.compile(r"\.form$"),
    "the kind of a part": re.compile(r"\b(corpus|source|batches|objective|task)\.kind$"),
    "what a model reads": re.compile(r"\btakes_(vectors|source|prefix)$"),
    "what an objective does": re.compile(
        r"\bobjective\.(horizons|origins|paths|tunes|compares|reference|learns_texts|own_batches)$"
    ),
}
CLASSES = {
    *(
        "Columns",
        "PixelsConfig",
        "SeriesConfig",
        "StorytellerSource",
        "BouncingBallSource",
        "Grid",
        "GridConfig",
    ),
    *("EncoderDecoder", "EncoderDecoderConfig", "VectorHead", "Quantiles", "Calibrated"),
    *("Text", "Chat", "Translation", "Forecast", "Records"),
}
"""Classes of one task."""
RESULTS = {
    *("forecast", "forecasts", "translations", "alignment", "preferences", "answers", "validity", "records"),
    *("wishes", "pictures", "prompts"),
}
"""What stands in an evaluation of one task."""
NAMES = {"chat", "translation", "forecast", "records", "conversations", "preferences"}
"""What tasks and their records are called."""
CALLS = {"judges_only"}
TASKS = re.compile(r"octavo\.tasks\.\w")


def constant(node: ast.AST) -> str | None:
    """A string that stands there; None of anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def question(node: ast.AST) -> str | None:
    """What a piece of code asks about the kind of task; None if it does not."""
    if isinstance(node, ast.Attribute):
        said = ast.unparse(node)
        return next((name for name, pattern in ASKED.items() if pattern.search(said)), None)
    if isinstance(node, ast.ImportFrom | ast.Import):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        return "a task's module" if any(TASKS.match(f"{name}.") for name in names) else None
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        if not isinstance(node.left, ast.Constant) and any(map(question, sides)):
            return None  # counted where the side is
        if isinstance(node.ops[0], ast.In | ast.NotIn) and constant(node.left) in RESULTS:
            return "a task's result"
        if not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            return None
        named = {constant(each) for side in sides for each in ast.walk(side)} & NAMES
        return "the name of a task" if named else None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        named = constant(node.slice) in RESULTS and ast.unparse(node.value) != "Literal"
        return "a task's result" if named else None
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in ("isinstance", "issubclass"):
            classes = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            return "whether it is of one task's class" if classes & CLASSES else None
        if name in CALLS:
            return "whether it only judges"
        if name == "get" and node.args and constant(node.args[0]) in RESULTS:
            return "a task's result"
    return None


def questions(package: Path) -> dict[str, list[str]]:
    """By file of the core, as `room/file.py`: `line: what is asked: code` for each question in it."""
    found: dict[str, list[str]] = {}
    for path in sources(package):
        name = path.relative_to(package).as_posix()
        if name.partition("/")[0] in CORE:
            asked = [(node, said) for node in ast.walk(tree(path)) if (said := question(node))]
            said = [f"{node.lineno}: {what}: {ast.unparse(node)[:80]}" for node, what in asked]  # type: ignore[attr-defined]
            if said:
                found[name] = said
    return found


# ---------------------------------------------------------------- what the sources say


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of one file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def sources(package: Path) -> list[Path]:
    """Its Python files."""
    return sorted(package.rglob("*.py"))


def room_of(package: Path, path: Path) -> str:
    """The top folder that it lies in."""
    parts = path.relative_to(package).parts
    return parts[0] if len(parts) > 1 else ""


def folders(package: Path) -> dict[str, int]:
    """Files of each folder, without those in folders below it; the fullest first."""
    counts = Counter(path.parent.relative_to(package).as_posix() for path in sources(package))
    return dict(counts.most_common())


def rooms(package: Path) -> dict[str, int]:
    """Files of each room, the fullest first."""
    counts = Counter(room_of(package, path) for path in sources(package))
    return dict(counts.most_common())


def edges(package: Path, *, lazy: bool) -> dict[Path, set[Path]]:
    """Which files import which. `lazy`: also inside functions and for type checking alone."""
    of = {path.relative_to(package.parent).with_suffix("").as_posix(): path for path in sources(package)}
    of |= {name.removesuffix("/__init__"): path for name, path in of.items() if name.endswith("/__init__")}
    homes = given_lazily(package)
    found: dict[Path, set[Path]] = {}
    for path in sources(package):
        nodes = ast.walk(tree(path)) if lazy else at_import(tree(path))
        names = [homes.get(name, name) for node in nodes for name in imported(node)]
        found[path] = {of[name] for name in names if name in of}
        found[path].discard(path)
    return found


def given_lazily(package: Path) -> dict[str, str]:
    """By what an import asks for, as `a/b`: the module in which a package that imports it then has it."""
    found = {}
    for path in sources(package):
        here = path.parent.relative_to(package.parent).as_posix()
        for node in ast.walk(tree(path)) if path.name == "__init__.py" else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazily":
                where = ast.literal_eval(node.args[1])
                found |= {
                    f"{here}/{name}": f"{here}/{at}" for at, names in where.items() for name in names.split()
                }
    return found


def imported(node: ast.AST) -> Iterator[str]:
    """What an import statement asks for, as `a/b`, and what may be modules in it."""
    if isinstance(node, ast.Import):
        yield from (alias.name.replace(".", "/") for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        module = node.module.replace(".", "/")
        yield from (module, *(f"{module}/{alias.name}" for alias in node.names))


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from at_import(other)
            continue
        yield child
        yield from at_import(child)


def cycles(package: Path) -> list[list[str]]:
    """Files that import each other while they are imported, in groups (Tarjan's strongly connected components)."""
    graph, found = edges(package, lazy=False), []
    index: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []

    def visit(path: Path) -> None:
        index[path] = low[path] = len(index)
        stack.append(path)
        for other in sorted(graph[path]):
            if other not in index:
                visit(other)
                low[path] = min(low[path], low[other])
            elif other in stack:
                low[path] = min(low[path], index[other])
        if low[path] == index[path]:
            group = stack[stack.index(path) :]
            del stack[stack.index(path) :]
            if len(group) > 1:
                found.append(sorted(each.relative_to(package).as_posix() for each in group))

    sys.setrecursionlimit(10_000)
    for path in graph:
        if path not in index:
            visit(path)
    return found


def imported_with(package: Path, start: str) -> set[str]:
    """The files that importing one imports, by what stands in the sources: itself, and the packages around each."""
    graph, found, left = edges(package, lazy=False), set[Path](), [package / start]
    while left:
        path = left.pop()
        if path in graph and path not in found:
            found.add(path)
            above = (folder for folder in path.parents if folder == package or package in folder.parents)
            left += [*graph[path], *(folder / "__init__.py" for folder in above)]
    return {path.relative_to(package).as_posix() for path in found}


def importers(package: Path) -> dict[Path, set[Path]]:
    """Who imports each file, lazily too."""
    found: dict[Path, set[Path]] = {path: set() for path in sources(package)}
    for path, others in edges(package, lazy=True).items():
        for other in others:
            found[other].add(path)
    return found


def one_importer(package: Path) -> list[str]:
    """Modules that one module of their own room imports, and no other."""
    return [
        path.relative_to(package).as_posix()
        for path, others in importers(package).items()
        if len(others) == 1
        and path.name != "__init__.py"
        and room_of(package, path) == room_of(package, next(iter(others)))
        and next(iter(others)).name != "__init__.py"
    ]


def namesakes(package: Path) -> dict[str, list[str]]:
    """Modules of one name, two or more of which are private: no other room imports them, or an underscore begins the
    name. `base` and `common` may stand in every room, verbs are called what they are, and all tasks have the same
    files."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, others in importers(package).items():
        here = room_of(package, path)
        own = path.stem.startswith("_") or all(room_of(package, other) == here for other in others)
        if (
            own
            and here not in ("", "cli", "tasks")
            and path.stem not in ("__init__", "__main__", "base", "common")
        ):
            found[path.stem.strip("_")].append(path.relative_to(package).as_posix())
    return {stem: paths for stem, paths in sorted(found.items()) if len(paths) > 1}


def dictionaries(package: Path) -> list[str]:
    """Functions that return `dict[str, Any]`, or None."""
    return [
        f"{path.relative_to(package).as_posix()}:{node.lineno} {node.name}"
        for path in sources(package)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns) in ("dict[str, Any]", "dict[str, Any] | None")
    ]


def docstrings(package: Path) -> list[str]:
    """Of modules, and of classes and functions with a public name."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = (node for path in sources(package) for node in ast.walk(tree(path)) if isinstance(node, kinds))
    public = (node for node in nodes if isinstance(node, ast.Module) or not node.name.startswith("_"))
    return [said for node in public if (said := ast.get_docstring(node))]


def words(root: Path) -> dict[str, int]:
    """Of the documentation: the README, CONTRIBUTING and CHANGELOG, pages by hand, and pages that a command writes."""
    made = re.compile(r"[Mm]ade .*by `(python -m|octavo) ")
    found = {"README": 0, "CONTRIBUTING": 0, "CHANGELOG": 0, "pages by hand": 0, "generated pages": 0}
    for path in [*root.glob("*.md"), *(root / "docs").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        name = path.stem if path.parent == root else "pages by hand"
        if made.search(text[:600]) or "results" in path.parts or path.stem == "results":
            name = "generated pages"
        found[name] = found.get(name, 0) + len(text.split())
    return found


# ---------------------------------------------------------------- what runs

FUNCTION = 0x1  # CO_OPTIMIZED: bodies of modules and classes lack it


class Tracer:
    """The files of a package whose functions run after the function of a verb has begun, in any thread."""

    def __init__(self, package: Path) -> None:
        self.package, self.found, self.begun = f"{package}{os.sep}", dict[str, None](), False  # in order
        self.until_trained = 0
        self.importing: Counter[int] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(self.package):
            return
        if code.co_name == "<module>":
            self.importing[threading.get_ident()] += 1 if event == "call" else -1
        elif event == "call" and code.co_flags & FUNCTION and not self.importing[threading.get_ident()]:
            self.begun = self.begun or code.co_name.endswith("_command")
            if self.begun:
                file = code.co_filename.removeprefix(self.package)
                self.found[file] = None
                if file in STEPS:
                    self.until_trained = len(self.found)


def trace(package: Path, arguments: list[str]) -> None:
    """Run a command here and print the files that it executes and those that are imported at its end, as JSON."""
    from octavo.cli import main

    tracer = Tracer(package)
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        main(arguments)
    except SystemExit as end:
        code = end.code
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    if code or not tracer.begun:
        raise SystemExit(f"octavo {' '.join(arguments)} ended with {code}")
    executed = list(tracer.found)
    trained = sorted(executed[: tracer.until_trained])
    print(json.dumps({"executed": sorted(executed), "trained": trained, "imported": loaded(package)}))


def loaded(package: Path) -> list[str]:
    """The package's files that are imported."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return sorted({file for file in files if file and file.startswith(f"{package}{os.sep}")})


def by_name(package: Path) -> None:
    """Print the files that `octavo.train` imports (with minutes: one version called it `train_for`), as JSON."""
    import octavo

    for name in ("train", "train_for"):
        getattr(octavo, name, None)
    print(json.dumps({"imported": loaded(package)}))


def child(root: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    """What this file prints in a process of its own that imports the package of `root`."""
    paths = os.pathsep.join([str(root / "src"), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": paths, "OCTAVO_CACHE": str(folder / "cache")}
    command = [sys.executable, __file__, str(root), "--child", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


STEPS = ("training/step.py", "training/work.py", "training/loop.py")
"""Where a training step is, by its names of today and of earlier: the last one makes the trained model."""
WAYS = {
    "train by a recipe": ("train", "minute", "--text", "text.txt", "--out", "run", "training.steps=20"),
    "train by minutes": ("train", "--text", "text.txt", "--out", "minutes", "--minutes", "0.5"),
    "generate": ("generate", "run", "--prompt", "the", "--tokens", "40"),
}


def ways(root: Path) -> dict[str, dict[str, list[str]]]:
    """The files that a text passes, executed and imported, by way."""
    with tempfile.TemporaryDirectory(prefix="octavo-structure-") as name:
        folder = Path(name)
        order = ((7 * n * n + 3 * n) % 31 % 4 for n in range(3000))
        (folder / "text.txt").write_text("".join(SENTENCES[n] for n in order), encoding="utf-8")
        found = {"import octavo.train": child(root, folder)}
        return found | {way: child(root, folder, *arguments) for way, arguments in WAYS.items()}


# ---------------------------------------------------------------- all of it


def figures(root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the sources of a checkout say, and the places behind the figures."""
    package = root / "src" / "octavo"
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources(package)}
    said = docstrings(package)
    asked, alone = questions(package), one_importer(package)
    places = {
        "questions about the task": asked,
        "modules with one importer, in their room": alone,
        "two private modules of one name": namesakes(package),
        "files in import cycles": cycles(package),
        "functions that return dict[str, Any]": dictionaries(package),
    }
    by_room: Counter[str] = Counter()
    for name, found in asked.items():
        by_room[name.partition("/")[0]] += len(found)
    return {
        "files": len(lines),
        "lines": sum(lines.values()),
        "lines of a file, in the mean": round(sum(lines.values()) / len(lines)),
        "rooms": sum(room != "" for room in rooms(package)),
        "folders of more than 30 files": sum(count > 30 for count in folders(package).values()),
        "questions about the task": sum(map(len, asked.values())),
        **{f"questions in {room}": count for room, count in sorted(by_room.items())},
        "functions that return dict[str, Any]": len(places["functions that return dict[str, Any]"]),
        "two private modules of one name": len(places["two private modules of one name"]),
        "modules with one importer, in their room": len(alone),
        "of these, of fewer than 100 lines": sum(lines[package / name] < 100 for name in alone),
        "files in import cycles": sum(map(len, places["files in import cycles"])),
        "docstrings": len(said),
        "docstrings of at most four words": sum(len(each.split()) <= 4 for each in said),
        "See the base class.": sum(each.startswith("See the base class") for each in said),
        **{f"words of {name}": count for name, count in words(root).items()},
    }, places | {"rooms": rooms(package)}


def main() -> None:
    """Measure a checkout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", type=Path, nargs="?", default=HERE)
    parser.add_argument("--verbose", action="store_true", help="also the places behind the figures")
    parser.add_argument("--still", action="store_true", help="train nothing")
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args()
    root = given.root.resolve()
    if given.child is not None:
        package = root / "src" / "octavo"
        return trace(package, given.child) if given.child else by_name(package)
    found, places = figures(root)
    if not given.still:
        for way, files in ways(root).items():
            places[way] = files.get("executed", files["imported"])
            places[f"{way}, until the model is trained"] = files.get("trained", [])
            kinds = {
                "executed": "executed",
                "trained": "executed until the model is trained",
                "imported": "imported",
            }
            found |= {f"{way}: files {kinds[kind]}": len(each) for kind, each in files.items() if each}
    if given.verbose:
        for name, each in places.items():
            print(f"\n{name}")
            listed(each)
        print()
    print_table([{"figure": name, "here": value} for name, value in found.items()])
    finish({"figures": found, "rooms": places["rooms"]})
    return None


def listed(found: Mapping[str, Any] | list[Any]) -> None:
    """One place a line."""
    for each in found:
        if isinstance(found, Mapping) and isinstance(found[each], list):
            print(f"  {each} ({len(found[each])})")
            print("".join(f"      {line}\n" for line in found[each]), end="")
        else:
            print(f"  {each} {found[each]}" if isinstance(found, Mapping) else f"  {each}")


if __name__ == "__main__":
    main()
