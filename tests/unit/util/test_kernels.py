"""Kernels in C: compiled once and kept, never an error where that cannot be done, and nothing is loaded unchecked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from octavo.errors import StorageError
from octavo.util import kernels

REAL = kernels.sources()

pytestmark = pytest.mark.skipif(kernels.in_use().native is None, reason="there is no C compiler here")


@pytest.fixture(autouse=True)
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two files that are compiled in no time, and a cache of their own."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(f"int {name}(void) {{ return 1; }}")
    of(monkeypatch, tmp_path / "one.c", tmp_path / "two.c")
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_tried", lambda path: (None, True))  # they prove nothing
    forget()
    yield
    forget()


def of(monkeypatch: pytest.MonkeyPatch, *files: Path) -> None:
    monkeypatch.setattr(kernels, "sources", lambda: list(files))


def forget() -> None:
    kernels._chosen.cache_clear()
    kernels._say.cache_clear()


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").glob("native/[!.]*"))


def works(found: object) -> bool:
    return found is not None and all(hasattr(found, name) for name in ("one", "two"))


def compiler(folder: Path, script: str) -> str:
    """A compiler that is a shell script; `"$@"` are its arguments."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_builds", lambda *_: pytest.fail("compiled again"))


def test_ctrl_c_is_not_lost_when_the_compiler_has_ended_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group is gone then: ProcessLookupError is an OSError, which here means "no kernel, go on"."""
    monkeypatch.setattr(kernels.shutil, "which", lambda _: compiler(tmp_path, "exit 1"))
    wait, waits = subprocess.Popen.wait, []

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        waits.append(wait(process, timeout))
        if len(waits) == 1:
            raise KeyboardInterrupt
        return waits[0]

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernels.in_use()


@pytest.mark.parametrize("real", [False, True])
def test_compiled_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: bool) -> None:
    if real:
        of(monkeypatch, *REAL)
    monkeypatch.setattr(kernels, "OPTIONS", ("-O0", "-fPIC"))
    found, name = kernels.in_use().native, "decode" if real else "two"
    assert hasattr(found, name)
    before = kept(tmp_path)
    assert len(before) == 1
    forget()
    no_compiling(monkeypatch)
    assert hasattr(kernels.in_use().native, name)
    assert kept(tmp_path) == before


def test_threads_that_need_the_kernels_compile_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is read in two ways at once, and both need the kernel that counts what was said."""
    real, asked = kernels._builds, []

    def builds(compiler: str) -> Iterator[bytes]:
        asked.append(compiler)
        time.sleep(0.2)  # long enough for all threads to come
        yield from real(compiler)

    monkeypatch.setattr(kernels, "_builds", builds)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: kernels.in_use().native, range(4)))
    assert works(found[0]) and all(each is found[0] for each in found)
    assert len(asked) == 1


def test_processes_that_begin_together_compile_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installations that share a cache, or the workers of a study."""
    builds = kernels._builds

    def meanwhile(compiler: str) -> Iterator[bytes]:
        """Another process comes while this one compiles, and has to wait for what is made."""
        for built in builds(compiler):
            other = subprocess.Popen([sys.executable, "-c", ANOTHER, *map(str, kernels.sources())])
            others.append(other)
            with pytest.raises(subprocess.TimeoutExpired):
                other.wait(1.5)
            yield built

    others: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(kernels, "_builds", meanwhile)
    assert works(kernels.in_use().native)
    assert [other.wait(60) for other in others] == [0] and len(kept(tmp_path)) == 1


ANOTHER = """
import sys
from pathlib import Path
from octavo.util import kernels
kernels.sources = lambda: [Path(path) for path in sys.argv[1:]]
kernels._tried = lambda path: (None, True)
kernels._builds = lambda compiler: sys.exit("compiles, too")
assert kernels.in_use().native.one() == 1
"""


def test_one_that_holds_on_for_too_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "WAIT", 0.2)
    key = kernels._key(str(next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))))
    with kernels.PrivateFolder(tmp_path / "cache" / "native").held(f"kernels-{key}.so"):
        assert works(kernels.in_use().native)


def test_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_NATIVE", "0")
    assert kernels.in_use().native is None
    assert not kept(tmp_path)


def test_a_compiler_that_fails_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.shutil, "which", lambda name: "/bin/false")
    with pytest.warns(UserWarning, match="makes does not load here: torch does the kernels' work"):
        assert kernels.in_use().native is None
    assert not kept(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "cut to a page", "flipped bit", "another library", "empty"])
def test_a_damaged_library_is_made_again(tmp_path: Path, damage: str) -> None:
    """One that was cut ended the process with SIGBUS."""
    assert works(kernels.in_use().native)
    (path,) = kept(tmp_path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "cut": whole[: len(whole) // 3],
        "cut to a page": whole[:4096],
        "flipped bit": whole[:middle] + bytes([whole[middle] ^ 16]) + whole[middle + 1 :],
        "another library": whole[: -len(whole) // 4] + whole[len(whole) // 4 :],
        "empty": b"",
    }[damage]
    path.write_bytes(damaged)
    forget()
    assert works(kernels.in_use().native)
    assert kept(tmp_path) == [path] and len(path.read_bytes()) == len(whole)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners of this kind")
@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.parametrize("how", ["foreign", "group-writable", "world-writable"])
def test_what_others_may_have_written_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, how: str
) -> None:
    """A shared cache let another user's code run."""
    assert works(kernels.in_use().native)
    (path,) = kept(tmp_path)
    place = path.parent if what == "folder" else path
    if how != "foreign":
        place.chmod(place.stat().st_mode | {"group-writable": 0o020, "world-writable": 0o002}[how])
    elif os.geteuid() == 0:
        os.chown(place, 65534, -1)
    else:
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
        monkeypatch.setattr(kernels, "replaceable", lambda path: False)
    before, loaded, load = path.read_bytes(), [], kernels._loaded
    monkeypatch.setattr(kernels, "_loaded", lambda built: (loaded.append(built), load(built))[1])
    builds, times = kernels._builds, []
    monkeypatch.setattr(kernels, "_builds", lambda *a: (times.append(1), builds(*a))[1])
    forget()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert works(kernels.in_use().native)
    assert len(times) == 1 and len(loaded) == 1, "made anew, nothing else loaded"
    if what == "folder" or os.geteuid() != 0:
        assert len(said) == 1 and "cannot be kept in" in str(said[0].message)
        assert path.read_bytes() == before and kept(tmp_path) == [path]
    else:
        assert not said and path.stat().st_mode & 0o777 == 0o600, "a file of our own is in its place"


def test_a_library_is_loaded_from_the_bytes_that_were_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is cut between the check and the loading."""
    assert works(kernels.in_use().native)
    (path,) = kept(tmp_path)
    load = kernels._loaded
    monkeypatch.setattr(kernels, "_loaded", lambda built: (os.truncate(path, 100), load(built))[1])
    no_compiling(monkeypatch)
    forget()
    assert works(kernels.in_use().native)


@pytest.mark.parametrize("memory", [True, False])
def test_loaded_where_nothing_may_be_run_from_memory(monkeypatch: pytest.MonkeyPatch, memory: bool) -> None:
    if memory:
        monkeypatch.setattr(os, "memfd_create", refused, raising=False)
    else:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    assert works(kernels.in_use().native)


def refused(*_: object) -> int:
    raise PermissionError("not here")


def test_other_sources_are_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system knows libraries by their path, which both may have had at their time."""
    first = kernels.in_use().native
    kernels._chosen.cache_clear()
    (tmp_path / "three.c").write_text("int three(void) { return 1; }")
    of(monkeypatch, tmp_path / "three.c")
    second = kernels.in_use().native
    assert works(first) and hasattr(second, "three") and not works(second)
    assert len(kept(tmp_path)) == 2


def test_a_compiler_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said once, tried once, and what the compiler has started ends too."""
    started = tmp_path / "started"
    slow = compiler(tmp_path, f'sleep 60 & echo $! >> "{started}"; wait')
    monkeypatch.setattr(kernels.shutil, "which", lambda name: slow)
    monkeypatch.setattr(kernels, "PATIENCE", 0.5)
    with pytest.warns(UserWarning, match="took more than .* s: torch does the kernels' work") as said:
        assert kernels.in_use().native is None
    assert len(said) == 1
    assert all(ended(int(process)) for process in started.read_text().split())


def ended(process: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            if state == "Z":
                return True
            os.kill(process, 0)
        except (FileNotFoundError, ProcessLookupError):
            return True
        os.sched_yield()
        subprocess.run(["sleep", "0.05"], check=True)
    return False


@pytest.mark.parametrize("what", ["no library", "a symbol that is nowhere"])
def test_a_build_that_does_not_load_is_tried_with_plainer_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As with a compiler whose own libraries lie where the system does not look for them."""
    real = kernels.shutil.which("cc") or kernels.shutil.which("gcc") or kernels.shutil.which("clang")
    nowhere = tmp_path / "nowhere.c"
    nowhere.write_text("int nowhere(void); int asked(void) { return nowhere(); }")
    spoilt = {
        "no library": 'while [ "$1" != -o ]; do shift; done; echo nonsense > "$2"',
        "a symbol that is nowhere": f'exec {real} "$@" -x c "{nowhere}"',
    }[what]
    asked = tmp_path / "asked"
    script = f'echo "$@" >> "{asked}"\ncase "$*" in *-march*-shared*) {spoilt};; *) exec {real} "$@";; esac'
    which = compiler(tmp_path, script)
    monkeypatch.setattr(kernels.shutil, "which", lambda name: which)
    assert works(kernels.in_use().native)
    flags = [line for line in asked.read_text().splitlines() if " -shared" in line]
    assert "-march" in flags[0] and "-march" not in flags[-1]
    forget()
    no_compiling(monkeypatch)
    assert works(kernels.in_use().native), "what loaded is kept"


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="cannot be kept in .*OCTAVO_CACHE"):
        assert works(kernels.in_use().native)


def test_a_user_without_a_home_tries_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise StorageError("This user has no home.")

    monkeypatch.setattr(kernels, "default_cache", nowhere)
    with pytest.warns(UserWarning, match="tries its kernels anew: This user has no home"):
        assert works(kernels.in_use().native)


def test_a_temporary_folder_that_others_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "replaceable", lambda path: True)
    with pytest.warns(UserWarning, match="can be changed by other users"):
        assert kernels.in_use().native is None
