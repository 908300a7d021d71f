"""Shared fixtures: where the test data lies, and hypothesis made repeatable."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

if "OMP_NUM_THREADS" not in os.environ:
    # Workers share the cores, and of several threads a run takes what is fast just now. Before torch is imported.
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

import pytest
from hypothesis import HealthCheck, settings

from e2e import forked
from e2e.forked import Octavo
from octavo.util.files import default_cache
from octavo.util.kernels import in_use

settings.register_profile(
    "octavo", derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("octavo")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Kernels are compiled and tried here once, before several workers would each begin with that."""
    if not hasattr(session.config, "workerinput"):
        in_use()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """What is collected stays: no collection of garbage walks it, neither now nor in every test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder with real test data, or a skip that says where it was looked for."""
    folder = Path(os.environ.get("OCTAVO_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no test data at {folder} (set OCTAVO_TEST_DATA)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def reports_without_models() -> Iterator[None]:
    """Runs end soon: no report holds its model, unless `report.explainer=true` asks for it."""
    import octavo.explain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(octavo.explain, "LARGEST_IN_REPORT", 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_disk_is_waited_for() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", forked.fsync)
        yield


@pytest.fixture(scope="session")
def with_kernels() -> Callable[[Path], Path]:
    """Gives a new cache the user's kernels, for processes that would compile and try them again."""

    def given(cache: Path) -> Path:
        if (known := default_cache() / "native").is_dir():
            shutil.copytree(known, cache / "native")
        return cache

    return given


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, with_kernels: Callable[[Path], Path]
) -> Iterator[Octavo]:
    """Runs commands and programs in processes that start at once, in a folder and with a cache of the session."""
    octavo = Octavo(tmp_path_factory.mktemp("work"), with_kernels(tmp_path_factory.mktemp("cache")))
    yield octavo
    octavo.close()


@pytest.fixture(scope="module")
def plain_reports() -> Iterator[None]:
    """Runs end soon, for tests that look neither at figures nor at judged samples."""
    with pytest.MonkeyPatch.context() as patch:
        forked.plain_reports(patch.setattr)
        yield
