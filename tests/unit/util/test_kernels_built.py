"""Kernels that come with a wheel: the best that proves itself on this processor is taken, a bad one costs itself."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.util import kernels

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None or os.name == "nt", reason="there is no C compiler here")

TOY = "int score(void) {{ return {score}; }}\nint {name}(void) {{ return 1; }}\n"
LIES = """
#include <stdlib.h>
int score(void) { return 9; }
// An instruction that the processor said it had; only the child process comes here.
__attribute__((constructor)) static void begin(void) { if (getenv("OCTAVO_KERNEL")) __builtin_trap(); }
"""
WRONG = ("head / (m->heads / m->groups)", "head % m->groups")


def compiled(to: Path, *files: Path) -> Path:
    command = [str(COMPILER), "-O0", "-shared", "-fPIC", "-pthread", "-o", str(to), *map(str, files), "-lm"]
    subprocess.run(command, check=True)
    return to


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels, and the kernels with a fault in one line."""
    folder = tmp_path_factory.mktemp("real")
    compiled(folder / "right.so", *kernels.sources())
    shutil.copytree(kernels.PACKAGE, folder / "octavo", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    decode = folder / "octavo" / "generation" / "decode.c"
    source = decode.read_text(encoding="utf-8")
    assert source.count(WRONG[0]) == 1
    decode.write_text(source.replace(*WRONG), encoding="utf-8")
    levels = folder / "octavo" / "util" / "levels.c"
    levels.write_text("int score(void) { return 8; }\n", encoding="utf-8")
    compiled(folder / "wrong.so", *sorted((folder / "octavo").rglob("*.c")))
    (folder / "lies.c").write_text(LIES, encoding="utf-8")
    compiled(folder / "lies.so", folder / "lies.c")
    return folder


class Wheel:
    """A folder of built kernels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.variants: dict[str, dict[str, str]] = {}
        self.write()

    def write(self) -> None:
        facts = {"commit": "c0ffee", "compiler": "cc", "variants": self.variants}
        (self.folder / "built.json").write_text(json.dumps(facts), encoding="utf-8")

    def add(self, name: str, file: Path) -> Path:
        to = self.folder / f"{name}.so"
        shutil.copy(file, to)
        self.variants[name] = {"file": to.name, "sha256": hashlib.sha256(to.read_bytes()).hexdigest()}
        self.write()
        return to

    def toy(self, name: str, score: int) -> Path:
        source = self.folder.parent / f"{name}-{score}.c"
        source.write_text(TOY.format(score=score, name=name), encoding="utf-8")
        return self.add(name, compiled(source.with_suffix(".so"), source))


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wheel]:
    """With nothing in it; nothing can be compiled, unless a test lets it."""
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "BUILT", tmp_path / "wheel")
    monkeypatch.setattr(kernels.shutil, "which", lambda name: None)
    for name in ("OCTAVO_KERNEL", "OCTAVO_COMPILE", "OCTAVO_NATIVE"):
        monkeypatch.delenv(name, raising=False)
    forget()
    yield Wheel(tmp_path / "wheel")
    forget()


def forget() -> None:
    kernels._chosen.cache_clear()
    kernels._say.cache_clear()


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str | None, bool] | int]:
    """What a child process would say of each file, and how often it was asked; nothing said: it proves itself."""
    said: dict[str, tuple[str | None, bool] | int] = {"times": 0}

    def verdict(path: Path) -> tuple[str | None, bool]:
        times, found = said["times"], said.get(path.stem, (None, True))
        assert isinstance(times, int) and isinstance(found, tuple)
        said["times"] = times + 1
        return found

    monkeypatch.setattr(kernels, "_tried", verdict)
    return said


def test_the_right_one_is_taken_after_one_that_crashes_and_one_that_is_wrong(
    wheel: Wheel, real: Path
) -> None:
    """In child processes, each once: the verdicts are kept."""
    for name in ("lies", "right", "wrong"):
        wheel.add(name, real / f"{name}.so")
    with pytest.warns(UserWarning, match="on this processor: the next best are taken") as said:
        found = kernels.in_use()
    assert found.name == "right" and hasattr(found.native, "decode")
    words = [str(one.message) for one in said]
    assert "lies ended the process that tried it (SIGILL)" in words[0]
    assert "wrong gives other results than torch (writing, modern" in words[1]
    forget()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        patch.setattr(kernels, "_tried", lambda path: pytest.fail("tried again"))
        again = kernels.in_use()
    assert (again.name, again.why) == (found.name, found.why)
    assert "SIGILL" in found.why and "other results" in found.why


def test_the_fastest_that_the_processor_knows(wheel: Wheel, tried: dict[str, object]) -> None:
    for name, score in (("old", 2), ("newest", 0), ("new", 4)):
        wheel.toy(name, score)
    found = kernels.in_use()
    assert found.name == "new" and hasattr(found.native, "new")
    assert tried["times"] == 1, "only what is to be used is tried"


def test_a_damaged_file(wheel: Wheel, tried: dict[str, object]) -> None:
    wheel.toy("old", 2)
    best = wheel.toy("new", 4)
    whole = best.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", whole[:900] + b"\xff" + whole[901:]):
        best.write_bytes(damaged)
        forget()
        with pytest.warns(UserWarning, match=r"new\.so is damaged, so it is not used\. Install Octavo again"):
            found = kernels.in_use()
        assert found.name == "old" and "new is damaged" in found.why


@pytest.mark.parametrize("instead", ["nothing", "a folder", "a pipe"])
def test_a_file_that_is_gone(wheel: Wheel, tried: dict[str, object], instead: str) -> None:
    """It is missed aloud, and a pipe in its place is not waited for."""
    wheel.toy("old", 2)
    path = wheel.toy("new", 4)
    path.unlink()
    {"nothing": lambda path: None, "a folder": Path.mkdir, "a pipe": os.mkfifo}[instead](path)
    with pytest.warns(UserWarning, match=r"new\.so is damaged, so it is not used\. Install Octavo again"):
        found = kernels.in_use()
    assert found.name == "old" and "new is damaged" in found.why


def test_a_library_that_has_no_score(wheel: Wheel, tried: dict[str, object], tmp_path: Path) -> None:
    """Whole, and as the list has it."""
    wheel.toy("old", 2)
    (tmp_path / "mute.c").write_text("int mute(void) { return 1; }")
    wheel.add("mute", compiled(tmp_path / "mute.so", tmp_path / "mute.c"))
    found = kernels.in_use()
    assert found.name == "old" and "mute cannot be loaded" in found.why


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"variants": 1}', "\udc80"),
        '{"commit": "a", "compiler": "b", "variants": {"x": {}}}',
        '{"commit": "a", "compiler": "b", "variants": {"x": 1}}',
    ],
)
def test_a_damaged_list(wheel: Wheel, text: str) -> None:
    (wheel.folder / "built.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.warns(UserWarning, match=r"built\.json is damaged"):
        assert kernels.in_use().native is None


@pytest.mark.parametrize("fact", ["1", "null", "[]", "{}", '"\\u0000"', '"."'])
def test_a_list_with_strange_facts(wheel: Wheel, tried: dict[str, object], fact: str) -> None:
    wheel.toy("old", 2)
    text = (wheel.folder / "built.json").read_text().replace('"variants": {', '"variants": {"x": STRANGE, ')
    strange = f'{{"file": {fact}, "sha256": {fact}}}'
    (wheel.folder / "built.json").write_text(text.replace("STRANGE", strange))
    with pytest.warns(UserWarning, match="is damaged, so it is not used"):
        found = kernels.in_use()
    assert found.name == "old" and "x is damaged" in found.why


def test_a_library_of_another_processor(wheel: Wheel, tried: dict[str, object], tmp_path: Path) -> None:
    """Whole, and as the list has it; so is what is no library at all."""
    best = wheel.toy("old", 2)
    other = bytearray(best.read_bytes())
    other[18:20] = b"\xb7\x00" if other[18] != 0xB7 else b"\x3e\x00"  # ELF's machine: arm64, or x86-64
    for name, content in (("other", bytes(other)), ("text", b"no library"), ("nothing", b"")):
        (tmp_path / name).write_bytes(content)
        wheel.add(name, tmp_path / name)
    found = kernels.in_use()
    assert found.name == "old"
    assert all(f"{name} cannot be loaded" in found.why for name in ("other", "text", "nothing"))


FATES = {
    "falls": ("*(volatile int *)0 = 1;", r"ended the process that tried it \(SIGSEGV\)", True),
    "is killed": ("kill(getpid(), SIGKILL);", r"ended the process that tried it \(SIGKILL\)", False),
    "hangs": ("for (;;) pause();", "did not end within 3 s", False),
    "leaves": ("_exit(0);", r"cannot be tried \(exit code 0\)", False),
}


@pytest.mark.parametrize("fate", FATES)
def test_what_happens_to_the_process_that_tries_a_library(
    wheel: Wheel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fate: str
) -> None:
    """Only what the library has done itself is held against it for good."""
    line, complaint, lasting = FATES[fate]
    (tmp_path / "toy.c").write_text(
        "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nint score(void) { return 3; }\n"
        f'__attribute__((constructor)) static void begin(void) {{ if (getenv("OCTAVO_KERNEL")) {{ {line} }} }}\n'
    )
    wheel.add("toy", compiled(tmp_path / "toy.so", tmp_path / "toy.c"))
    monkeypatch.setattr(kernels, "PATIENCE", 3.0 if fate == "hangs" else 120.0)
    with pytest.warns(UserWarning, match=f"The kernels for toy {complaint} on this processor"):
        assert kernels.in_use().native is None
    verdicts = list((tmp_path / "cache" / "native").glob("proof-*"))
    assert len(verdicts) == lasting


def test_a_verdict_that_is_no_text(
    wheel: Wheel, tried: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that only its owner can have written may hold anything all the same."""
    wheel.toy("new", 4)
    assert kernels.in_use().name == "new"
    (verdict,) = (tmp_path / "cache" / "native").glob("proof-*")
    for content in (b"", b"ok", b"\0" * 99, bytes(range(256)) * 4096):
        verdict.write_bytes(content)
        forget()
        assert kernels.in_use().name == "new", "it is not whole, so it is found out anew"
    kernels.PrivateFolder(verdict.parent).keep(verdict.name, b"\xff\xfe\x1b[2J")
    forget()
    with pytest.warns(UserWarning, match="the next best are taken"):
        assert kernels.in_use().native is None
    assert tried["times"] == 5


def test_a_file_outside_the_folder_is_not_loaded(wheel: Wheel, tmp_path: Path) -> None:
    file = wheel.toy("far", 3)
    file.rename(tmp_path / "far.so")
    wheel.variants["far"]["file"] = "../far.so"
    wheel.write()
    assert kernels.in_use().native is None


def test_what_cannot_be_tried_is_tried_again_another_time(wheel: Wheel, tried: dict[str, object]) -> None:
    wheel.toy("new", 4)
    tried["new"] = ("cannot be tried (no memory)", False)
    with pytest.warns(UserWarning, match="new cannot be tried"):
        assert kernels.in_use().native is None
    forget()
    tried["new"] = (None, True)
    assert kernels.in_use().name == "new"


def test_a_cache_that_cannot_be_written(wheel: Wheel, tried: dict[str, object], tmp_path: Path) -> None:
    wheel.toy("new", 4)
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="every process tries them anew .*OCTAVO_CACHE"):
        assert kernels.in_use().name == "new"
    forget()
    with pytest.warns(UserWarning, match="every process tries them anew"):
        assert kernels.in_use().name == "new"
    assert tried["times"] == 2


def test_two_installations_share_a_cache(
    wheel: Wheel, tried: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file has its own verdict, whatever it is called."""
    wheel.toy("new", 4)
    tried["new"] = ("ended the process that tried it (SIGILL)", True)
    with pytest.warns(UserWarning, match="SIGILL"):
        assert kernels.in_use().native is None
    other = Wheel(tmp_path / "other")
    other.toy("new", 5)
    monkeypatch.setattr(kernels, "BUILT", other.folder)
    tried["new"] = (None, True)
    forget()
    assert kernels.in_use().name == "new" and tried["times"] == 2
    monkeypatch.setattr(kernels, "BUILT", wheel.folder)
    forget()
    with pytest.warns(UserWarning, match="SIGILL"):
        assert kernels.in_use().native is None
    assert tried["times"] == 2


def test_another_processor_tries_for_itself(
    wheel: Wheel, tried: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that several machines share."""
    wheel.toy("new", 4)
    assert kernels.in_use().name == "new"
    monkeypatch.setattr(kernels, "_processor", lambda: "another")
    forget()
    assert kernels.in_use().name == "new" and tried["times"] == 2


def test_variables_choose(
    wheel: Wheel, tried: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel.toy("old", 2)
    best = wheel.toy("new", 4)
    wheel.toy("newest", 0)
    for value, name in (("none", "none"), ("old", "old"), (str(best), "new"), ("", "new")):
        monkeypatch.setenv("OCTAVO_KERNEL", value)
        forget()
        assert kernels.in_use().name == name
    monkeypatch.setenv("OCTAVO_KERNEL", "newest")
    forget()
    found = kernels.in_use()
    assert found.native is None and "this processor has not what newest needs" in found.why
    monkeypatch.setenv("OCTAVO_KERNEL", "nonsense")
    forget()
    said = "must be a file or one of new, newest, old, none; .* no kernels named nonsense"
    with pytest.warns(UserWarning, match=said):
        assert kernels.in_use().name == "new"
    (wheel.folder / "no.so").write_text("no library")
    monkeypatch.setenv("OCTAVO_KERNEL", str(wheel.folder / "no.so"))
    forget()
    with pytest.warns(UserWarning, match="no library that loads here"):
        assert kernels.in_use().name == "new"
    (tmp_path / "one.c").write_text("int one(void) { return 1; }")
    monkeypatch.setenv("OCTAVO_KERNEL", str(compiled(tmp_path / "one.so", tmp_path / "one.c")))
    forget()
    with pytest.warns(UserWarning, match=r"one\.so, which is no library of kernels\."):
        assert kernels.in_use().name == "new"


def test_a_variant_is_asked_for_where_none_came_with_the_package(
    wheel: Wheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkout, which compiles its own, the wish went unheard."""
    monkeypatch.setenv("OCTAVO_KERNEL", "x86-64-v4")
    with pytest.warns(UserWarning, match="must be a file or none; .* no kernels named x86-64-v4"):
        assert kernels.in_use().native is None


def test_compiled_first_where_that_is_asked_for(
    wheel: Wheel, tried: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel.toy("new", 4)
    (tmp_path / "one.c").write_text("int one(void) { return 1; }")
    monkeypatch.setattr(kernels, "sources", lambda: [tmp_path / "one.c"])
    monkeypatch.setattr(kernels.shutil, "which", lambda name: COMPILER)
    assert kernels.in_use().name == "new"
    monkeypatch.setenv("OCTAVO_COMPILE", "1")
    forget()
    assert kernels.in_use().name == "compiled here"
    monkeypatch.setattr(kernels.shutil, "which", lambda name: None)
    forget()
    assert kernels.in_use().name == "new", "where nothing can be compiled"


def test_what_is_compiled_here_follows_what_is_refused(
    wheel: Wheel, tried: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel.toy("new", 4)
    tried["new"] = ("ended the process that tried it (SIGILL)", True)
    (tmp_path / "one.c").write_text("int one(void) { return 1; }")
    monkeypatch.setattr(kernels, "sources", lambda: [tmp_path / "one.c"])
    monkeypatch.setattr(kernels.shutil, "which", lambda name: COMPILER)
    with pytest.warns(UserWarning, match="SIGILL"):
        found = kernels.in_use()
    assert found.name == "compiled here" and "SIGILL" in found.why


def test_where_nothing_works_torch_does_it_and_why_is_said(wheel: Wheel) -> None:
    found = kernels.in_use()
    assert (found.native, found.name, found.why) == (None, "none", "there is no C compiler here")
