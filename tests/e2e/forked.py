"""Commands in processes of their own that start at once: a server with everything imported forks one for each.

The client is `Octavo`. Run as a script, this file is the server: JSON lines in, JSON lines out.
"""

from __future__ import annotations

import dataclasses
import fcntl
import gc
import json
import os
import pkgutil
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache as cached
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import octavo

# What `die_at` counts: every file operation of Python below the folder that is watched.
OPERATIONS = {"open", "os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "shutil.rmtree"}


@dataclass(frozen=True)
class Result:
    """How a command ended: the exit code (negative: the signal), standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def operations(self) -> int:
        """File operations below the watched folder."""
        return int(self.err.rpartition("operations=")[2])


class Octavo:
    """Runs `octavo …` in `folder`, with its datasets in `cache`."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache, self.number = folder, cache, 0
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
        self.server = subprocess.Popen(
            [sys.executable, __file__, str(cache)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        print(json.dumps(request), file=self.server.stdin, flush=True)
        return json.loads(self.server.stdout.readline())

    def start(
        self,
        *arguments: object,
        stdin: bytes = b"",
        watch: Path | None = None,
        die_at: int = 0,
        patch: str = "",
        cache: str = "",
        unread: Sequence[int] = (),
        program: str = "",
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Command:
        """Begin a command. With `watch`, it is killed before its `die_at`-th file operation below that folder.
        `patch` names a function of this file that is called first; `cache` takes the place of the server's. `unread`:
        which of its streams (1, 2) are pipes whose reader is gone. `program`: Python that runs in place of a command,
        with all of Octavo imported. `folder` takes the place of the server's; `environment` is added to its own."""
        self.number += 1
        files = [self.folder / f".{self.number}.{name}" for name in ("in", "out", "err")]
        files[0].write_bytes(stdin)
        pid = self.ask(
            arguments=[str(argument) for argument in arguments],
            folder=str(folder or self.folder),
            files=[str(file) for file in files],
            watch=watch and str(watch),
            die_at=die_at,
            patch=patch,
            cache=cache,
            unread=list(unread),
            program=program,
            environment=environment or {},
        )
        return Command(self, pid, files)

    def on_a_terminal(
        self, *arguments: object, columns: int = 80, typed: Sequence[bytes] = ()
    ) -> tuple[int, str]:
        """Run a command on a terminal of its own. Each of `typed` is typed when it asks by `> `. The exit code and what
        was shown."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        shown: list[bytes] = []
        reader = threading.Thread(target=_read_all, args=(ours, shown))
        reader.start()
        pid = self.ask(
            arguments=[str(argument) for argument in arguments],
            folder=str(self.folder),
            files=[os.ttyname(theirs)] * 3,
            watch=None,
            die_at=0,
            patch="",
            cache="",
            environment={},
            terminal=True,
        )
        for asked, line in enumerate(typed, 1):
            until(lambda asked=asked: b"".join(shown).count(b"> ") >= asked)
            os.write(ours, line)
        code = self.ask(wait=pid)
        os.close(theirs)
        reader.join()
        os.close(ours)
        return code, b"".join(shown).decode("utf-8").replace("\r\n", "\n")

    def __call__(self, *arguments: object, **options: Any) -> Result:
        """Run a command to its end. What it prints under --json must be JSON by the standard,
        one document or one on each line."""
        done = self.start(*arguments, **options).wait()
        if "--json" in arguments and done.code == 0:
            read = json.JSONDecoder(parse_constant=_no_number)
            rest = done.out.strip()
            while rest:
                _, end = read.raw_decode(rest)
                rest = rest[end:].lstrip()
        return done

    def close(self) -> None:
        self.server.stdin.close()
        self.server.wait()


def _no_number(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something; fail where it does not come."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def _read_all(handle: int, into: list[bytes]) -> None:
    with suppress(OSError):  # how Linux says that nobody is left at the other end
        while piece := os.read(handle, 65536):
            into.append(piece)


@dataclass(frozen=True)
class Command:
    """A command that was started."""

    octavo: Octavo
    pid: int
    files: list[Path]

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> Result:
        code = self.octavo.ask(wait=self.pid)
        out, err = (file.read_bytes().decode("utf-8", "surrogateescape") for file in self.files[1:])
        return Result(code, out, err)


def serve(cache: str) -> None:
    """Fork a child for each request, tell its number; or wait for one, and tell its exit code."""
    from octavo.run import manifest

    warm()
    os.fsync = fsync
    plain_reports(setattr)
    manifest.code_identity()
    os.environ["OCTAVO_CACHE"] = cache
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = os.fork()
            if not answer:
                become(**request)
        print(json.dumps(answer), file=answers, flush=True)


def warm() -> None:
    """Do once what every child would do again: import all of it and what torch imports late, build the recipes'
    schema, load the kernels (from the user's own cache, so that no server compiles them), draw a figure, compile the
    report's templates and the shapes of what is read."""
    for module in pkgutil.walk_packages(octavo.__path__, "octavo."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    import_module("torch._dynamo")  # which every plan needs: its model has no weights

    from octavo.config import load_recipe, recipe_names
    from octavo.report import page
    from octavo.report.figure import Plot
    from octavo.util.html import templates
    from octavo.util.kernels import in_use
    from octavo.util.records import Record

    for name in recipe_names():
        load_recipe(name)
    in_use()
    figure = Plot(4, 3, paper="white")
    figure.add_subplot().plot([1, 2], [3, 4])
    figure.svg()
    pages = templates(Path(page.__file__).parent)
    for name in pages.list_templates(extensions=["html"]):
        pages.get_template(name)
    records = [Record]
    for record in records:
        records += record.__subclasses__()
        record.model_rebuild()
    gc.collect()
    gc.freeze()  # no child's collector walks what is imported, and so copies it


def become(
    arguments: list[str],
    folder: str,
    files: list[str],
    watch: str | None,
    die_at: int,
    patch: str,
    cache: str,
    environment: Mapping[str, str],
    terminal: bool = False,
    unread: Sequence[int] = (),
    program: str = "",
) -> None:
    """Be the command, in the child; never returns."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if terminal:
        os.setsid()  # so the first one that is opened becomes its own, and Ctrl-C there is for it
    for number, file in enumerate(files):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
    for number in unread:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, number)
    if terminal or unread:
        # Those that are there take themselves for files.
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.chdir(folder)
    os.environ.update(environment)
    if cache:
        os.environ["OCTAVO_CACHE"] = cache
    counted = watched(watch, die_at) if watch else [0]
    if patch:
        globals()[patch]()
    code = 99
    try:
        from octavo.cli import main

        if program:
            exec(compile(program, "program", "exec", dont_inherit=True), {"__name__": "__main__"})
            code = 0
        else:
            main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    if watch:
        print(f"operations={counted[0]}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def watched(folder: str, die_at: int) -> list[int]:
    """Count file operations below `folder` (in the list that is returned), and die before one of them."""
    count = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPERATIONS and _below(folder, arguments[0], event):
            count[0] += 1
            if count[0] == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


def _below(folder: str, path: object, event: str) -> bool:
    if not isinstance(path, str | os.PathLike):
        return False
    # Whole trees are removed by bare names, relative to an open folder.
    return str(path).startswith(folder) or (
        event in ("os.remove", "os.rmdir") and not Path(path).is_absolute()
    )


def fsync(handle: int) -> None:
    """In place of `os.fsync`, for which a tiny run waits most of its time: what a process wrote outlives it. What a
    power cut may take is what `unit.training.test_crash_states` asks."""


def plain_reports(put: Callable[[Any, str, Any], None]) -> None:
    """Let runs end soon: figures are not drawn, those of every run not even made, judged samples short, and the code
    is hashed once. Of a tiny run they are half of the time."""
    from octavo.evaluation import samples
    from octavo.report import plots
    from octavo.report.figure import Plot
    from octavo.run import manifest

    blank = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'
    for owner, name, plain in (
        (Plot, "svg", lambda figure: blank),
        (plots, "loss_plot", lambda data, **size: SimpleNamespace(svg=lambda: blank)),
        (plots, "progress_plot", lambda data, **size: blank),
    ):
        put(owner, name, wraps(getattr(owner, name))(plain))
    put(manifest, "code_identity", cached(manifest.code_identity))
    put(samples, "LENGTH", 24)


def drawn(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Figures are drawn after all."""
    from octavo.report import plots
    from octavo.report.figure import Plot

    for owner, name in ((Plot, "svg"), (plots, "loss_plot"), (plots, "progress_plot")):
        put(owner, name, getattr(owner, name).__wrapped__)


def slow_steps() -> None:
    """Let a step take ten seconds, after the first."""
    import time

    from octavo.run import trainer

    train = trainer.training_steps

    def slowly(*arguments: Any, **options: Any) -> Iterable[Any]:
        for info in train(*arguments, **options):
            yield info
            time.sleep(10)

    trainer.training_steps = slowly


def proven_here() -> None:
    """An export is opened again in the command's own process, which has its library already."""
    from octavo.export import export
    from octavo.export.prove import measure

    export.measured = measure


def by_torch() -> None:
    """There are no kernels."""
    from octavo.util import kernels

    os.environ["OCTAVO_NATIVE"] = "0"
    kernels._chosen.cache_clear()


def without_a_server() -> None:
    """The extra `serve` is not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("starlette", "uvicorn")]:
        del sys.modules[name]
    for name in [name for name in sys.modules if name.startswith("octavo.serving")]:
        del sys.modules[name]
    sys.modules["starlette"] = sys.modules["uvicorn"] = None  # type: ignore[assignment]


def few_prompts() -> None:
    """A tuned run is asked little when it is judged."""
    from octavo.tasks.chat import task as chat
    from octavo.tasks.text import task as text
    from octavo.tuning import judge

    chat.STORIES, text.STORIES, judge.MOST_PROMPTS = 16, 16, 4


def two_sizes() -> None:
    """`--minutes` chooses from few models, for which a machine elsewhere is soon predicted."""
    from octavo.auto import train

    train.SIZES = train.SIZES[:2]


def limited() -> None:
    """Interrupt the command when it takes long, and let it have 12 GiB of addresses at most."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_PROF, 20)  # the processor's, so that a busy machine ends no more of them
    signal.alarm(120)


def _no_interruption(signals: int) -> None:
    """So many times Ctrl-C, while a library calls Python back that makes an error of its own of it."""
    try:
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    except KeyboardInterrupt:
        raise ValueError("the words of a library") from None


def interrupted_before() -> None:
    """It is interrupted in a library before anything is made."""
    from octavo.run import train

    train.train_in = lambda *_, **__: _no_interruption(1)


def interrupted_again() -> None:
    """It is asked to stop in the first step, and interrupted in a library then."""
    from octavo.run import trainer

    trainer.training_steps = lambda *_, **__: _no_interruption(2)


def failed_by_itself() -> None:
    """A library fails in the first step."""
    from octavo.run import trainer

    def failed(*_: object, **__: object) -> None:
        raise ValueError("the words of a library")

    trainer.training_steps = failed


def poison() -> None:
    """Let the batch of step 13 have no targets, whose loss is not a number."""
    from octavo.run import trainer

    train = trainer.training_steps

    def poisoned(model: Any, optimizers: Any, batch: Any, **options: Any) -> Iterable[Any]:
        def drawn(step: int, micro: int) -> Any:
            made = batch(step, micro)
            return dataclasses.replace(made, targets=made.targets * 0 - 1) if step == 12 else made

        return train(model, optimizers, drawn, **options)

    trainer.training_steps = poisoned


if __name__ == "__main__":
    import octavo.explain

    octavo.explain.LARGEST_IN_REPORT = 0  # as in the tests themselves
    serve(sys.argv[1])
