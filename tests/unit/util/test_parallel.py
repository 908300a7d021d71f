"""The kernels' own threads: all of the work is done once, they sleep when there is none, and a fork may follow."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from octavo.util import kernels

pytestmark = [
    pytest.mark.skipif(kernels.in_use().native is None, reason="there is no C compiler here"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes"),
]

TASKS = Path("/proc/self/task")

SOURCE = """
#include "%s/parallel.h"
#include <stdint.h>

typedef struct { int64_t n; int32_t *times; int64_t *partial, total; int together; } Given;

// Counts each of n things once, and adds their numbers up in parts that meet twice.
static void work(void *given) {
  Given *g = given;
  ptrdiff_t begin, end;
  while (hand_out(g->n, 3, &begin, &end))
    for (ptrdiff_t i = begin; i < end; i++) g->times[i]++;
  share(g->n, &begin, &end);
  g->partial[thread_number()] = 0;
  for (ptrdiff_t i = begin; i < end; i++) g->partial[thread_number()] += i;
  meet();
  if (thread_number() == 0) {
    g->together = threads_together(), g->total = 0;
    for (int i = 0; i < threads_together(); i++) g->total += g->partial[i];
  }
  meet();
  g->partial[thread_number()] = g->total;
}

int64_t once(int64_t n, int32_t *times, int64_t *partial, int threads) {
  Given given = {n, times, partial, 0, 0};
  together(threads, work, &given);
  for (int i = 0; i < given.together; i++) if (partial[i] != given.total) return -1;
  return given.total * 1000 + given.together;
}

static void inner(void *given) { together(4, work, given); }
int64_t nested(int64_t n, int32_t *times, int64_t *partial, int threads) {
  Given given = {n, times, partial, 0, 0};
  together(1, inner, &given);
  (void)threads;
  return given.total * 1000 + given.together;
}
"""


@pytest.fixture(scope="module", params=["the pool", "torch's"])
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    """The work, by threads of the one kind or the other."""
    folder = tmp_path_factory.mktemp("parallel")
    own = kernels.PACKAGE / "util"
    (folder / "uses.c").write_text(SOURCE % own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder))
        patch.setattr(kernels, "sources", lambda: [folder / "uses.c", own / "parallel.c"])
        patch.setattr(kernels, "_tried", lambda path: (None, True))
        kernels._chosen.cache_clear()
        found = kernels.in_use().native
    kernels._chosen.cache_clear()
    assert found is not None
    if request.param == "the pool":
        found.borrow_threads(None, None, None)
    elif "libgomp" not in Path("/proc/self/maps").read_text(encoding="utf-8"):
        pytest.skip("torch has another OpenMP here")
    for name in ("once", "nested"):
        getattr(found, name).restype = ctypes.c_int64
    yield found


def counted(native: ctypes.CDLL, n: int, threads: int, name: str = "once") -> int:
    """How many threads worked; each of n things was counted once, and their sum is right."""
    times, partial = (ctypes.c_int32 * max(n, 1))(), (ctypes.c_int64 * 256)()
    found = getattr(native, name)(ctypes.c_int64(n), times, partial, threads)
    assert found // 1000 == n * (n - 1) // 2 and all(each == 1 for each in times[:n])
    return found % 1000


@pytest.mark.parametrize("n", [0, 1, 5, 100, 9999])
@pytest.mark.parametrize("threads", [-1, 0, 1, 2, 3, 8])
def test_all_is_done_once(native: ctypes.CDLL, n: int, threads: int) -> None:
    for _ in range(20):
        assert counted(native, n, threads) == max(threads, 1)


def test_threads_come_and_go(native: ctypes.CDLL) -> None:
    for threads in (2, 7, 1, 3, 7, 2) * 30:
        assert counted(native, 50, threads) == threads


def test_more_threads_than_there_are_places(native: ctypes.CDLL) -> None:
    assert counted(native, 1000, 100_000) <= 256


def test_of_several_callers_one_has_the_threads(native: ctypes.CDLL) -> None:
    assert counted(native, 100, 4, "nested") == 4
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: counted(native, 3000, 3), range(200)))
    assert set(found) <= {1, 3}, "one caller has the pool, others work alone; torch's are for each"


def test_idle_threads_sleep(native: ctypes.CDLL) -> None:
    """OpenMP's look for work for milliseconds after each call, and longer where the variables of the user say so."""

    def used() -> float:
        found = resource.getrusage(resource.RUSAGE_SELF)
        return found.ru_utime + found.ru_stime

    counted(native, 1000, 8)
    time.sleep(0.05)  # they still look for what is next
    before, begin = used(), time.monotonic()
    time.sleep(0.5)
    waited = time.monotonic() - begin
    assert used() - before < 0.1 * waited, "seven threads that spin take all of two cores"


def test_a_forked_process_has_threads_of_its_own(native: ctypes.CDLL) -> None:
    assert counted(native, 100, 3) == 3
    for _ in range(3):
        child = os.fork()
        if not child:
            signal.alarm(20)  # a child that waits for threads that it has not would wait for ever
            try:
                os._exit(0 if counted(native, 1000, 3) == 3 and counted(native, 10, 5) == 5 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert counted(native, 100, 3) == 3


def test_a_process_that_is_forked_while_another_thread_works(native: ctypes.CDLL) -> None:
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(lambda: [counted(native, 20_000, 3) for _ in range(60)])
        for _ in range(5):
            child = os.fork()
            if not child:
                signal.alarm(20)
                try:
                    os._exit(0 if counted(native, 1000, 3) == 3 else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        busy.result()


@pytest.mark.skipif(not TASKS.is_dir(), reason="this system does not show its threads")
def test_signals_go_to_the_thread_that_was_there_before(native: ctypes.CDLL) -> None:
    native.borrow_threads(None, None, None)  # what torch's do is torch's to say
    counted(native, 100, 8)
    assert sum(blocks(task, signal.SIGINT) for task in TASKS.iterdir()) >= 7


def blocks(task: Path, which: int) -> bool:
    mask = int((task / "status").read_text().partition("SigBlk:")[2].split()[0], 16)
    return bool(mask >> (which - 1) & 1)
