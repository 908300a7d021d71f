"""No file of the package can run what it reads: no pickle, eval, shell strings, unsafe YAML or archives.

Text is opened with its encoding named, so that what is read does not depend on the machine's locale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from guards.common import name_of, python_files, tree

FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "marshal", "joblib", "shelve", "dill", "cloudpickle"}
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_CALLS = {
    "torch.load",
    "torch.save",
    "torch.jit.load",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "shutil.rmtree",  # util/files.py removes what is ours, file by file
}
# These open something else than a text.
NO_TEXT = {"os.open", "webbrowser.open", "tarfile.open", "Image.open", "wave.open"}


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)


def safe_loaders(source: ast.Module) -> set[str]:
    """Names of YAML loaders that build plain data only: the safe ones and their subclasses here."""
    classes = [node for node in ast.walk(source) if isinstance(node, ast.ClassDef)]
    return {"SafeLoader", "CSafeLoader"} | {
        node.name for node in classes if any(ast.unparse(base).endswith("SafeLoader") for base in node.bases)
    }


def opens_text_without_encoding(call: ast.Call) -> bool:
    owner, _, method = ast.unparse(call.func).rpartition(".")
    if keyword(call, "encoding") is not None:
        return False
    if method == "read_text":
        return not call.args
    if method == "write_text":
        return len(call.args) < 2
    if (
        method not in {"open", "fdopen", "NamedTemporaryFile", "TemporaryFile"}
        or f"{owner}.{method}" in NO_TEXT
    ):
        return False
    temporary, compressed = method.endswith("TemporaryFile"), owner in {"gzip", "bz2", "lzma"}
    place = 0 if temporary or (owner not in {"", "io", "os"} and not compressed) else 1
    mode = keyword(call, "mode") or (call.args[place] if len(call.args) > place else None)
    if mode is None:
        return not (temporary or compressed)  # those are binary unless asked otherwise
    if not isinstance(mode, ast.Constant) or not set(str(mode.value)) <= set("rwxabt+"):
        return False  # a name inside an archive, not a mode
    return "t" in str(mode.value) if compressed else "b" not in str(mode.value)


def problems(source: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and reason of everything in a file that this guard forbids."""
    loaders = safe_loaders(source)
    for node in ast.walk(source):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
            yield from (
                (node.lineno, f"imports {name}") for name in names if name.split(".")[0] in FORBIDDEN_MODULES
            )
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in FORBIDDEN_NAMES | FORBIDDEN_CALLS or name.endswith((".extractall", ".unpack_archive")):
            yield node.lineno, f"calls {name}"
        if name in {"yaml.load", "yaml.load_all"}:
            loader = keyword(node, "Loader") or (node.args[1] if len(node.args) > 1 else None)
            if loader is None or ast.unparse(loader).split(".")[-1] not in loaders:
                yield node.lineno, "yaml.load without a safe loader"
        for option in ("shell", "allow_pickle"):
            value = keyword(node, option)
            if name.endswith(".generate_completion"):  # there `shell` is the name of one
                continue
            if value is not None and not (isinstance(value, ast.Constant) and value.value is False):
                yield node.lineno, f"{name} with {option}"
        if opens_text_without_encoding(node):
            yield node.lineno, f"{name} of a text without encoding="


def test_the_package_holds_nothing_unsafe() -> None:
    found = [
        f"{name_of(path)}:{line} {why}" for path in python_files("src") for line, why in problems(tree(path))
    ]
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import load",
        "import marshal as m",
        "torch.load(path)",
        "yaml.load(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "yaml.unsafe_load(text)",
        "eval(text)",
        "exec(text)",
        "archive.extractall(folder)",
        "subprocess.run(line, shell=True)",
        "os.system(line)",
        "shutil.rmtree(folder)",
        "np.load(path, allow_pickle=True)",
        "open(path)",
        "open(path, 'w')",
        "open(path, mode='a')",
        "path.open()",
        "path.open('w')",
        "path.read_text()",
        "path.write_text(text)",
        "gzip.open(path, 'rt')",
        "os.fdopen(handle, 'w')",
        "tempfile.NamedTemporaryFile('w')",
    ],
)
def test_the_guard_sees(line: str) -> None:
    assert list(problems(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "class Strict(yaml.SafeLoader): ...\nyaml.load(text, Loader=Strict)",
        "yaml.load(text, Loader=yaml.SafeLoader)",
        "yaml.safe_load(text)",
        "model.eval()",
        "re.compile(pattern)",
        "torch.compile(model)",
        "subprocess.run(words, shell=False)",
        "np.load(path, allow_pickle=False)",
        "open(path, 'rb')",
        "open(path, encoding='utf-8')",
        "path.open('wb')",
        "path.open('w', encoding='utf-8')",
        "path.read_text(encoding='utf-8')",
        "path.read_text('utf-8')",
        "path.write_text(text, encoding='utf-8')",
        "gzip.open(path)",
        "zipfile.ZipFile(path).open('word/document.xml')",
        "os.open(path, os.O_RDONLY)",
        "os.fdopen(handle, 'wb')",
        "webbrowser.open(address)",
        "tempfile.NamedTemporaryFile()",
    ],
)
def test_the_guard_lets_pass(line: str) -> None:
    assert not list(problems(ast.parse(line)))
