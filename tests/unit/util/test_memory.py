"""Memory that is not there is refused before it is taken, and what fits is never refused."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from octavo.config import check
from octavo.errors import InputError, OctavoError
from octavo.model.base import build_model
from octavo.training import memory as fitting
from octavo.training.memory import Fit, estimated, least, refuse_beyond_memory_of, ways
from octavo.util import memory
from octavo.util.memory import own_pages

SHAPES = (
    {},
    {"training": {"micro_batch": 1}},
    {"training": {"micro_batch": None, "batch": 64}},
    {"training": {"optimizer": "sgd", "batch": 2}},
    {"training": {"optimizer": "muon"}},
    {"model": {"tied": True, "context": 256, "layers": 1}},
    {"model": {"ngrams": "hashed", "layers": 1}},
    {
        "model": {
            "width": 16,
            "layers": 12,
            "heads": 2,
            "norm": "rms",
            "feed_forward": "swiglu",
            "positions": "rotary",
        }
    },
)


@pytest.mark.parametrize("tree", SHAPES)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_least_is_less_than_every_way_needs(tree: dict, precision: str) -> None:
    recipe = check(tree)
    model, training = recipe.model, recipe.training
    open_ways = ways(training.batch, micro_batch=training.micro_batch, recompute=training.recompute)
    need = estimated(recipe, training, open_ways[-1], vocab_size=300, precision=precision).memory
    held = need.total - need.allocator  # what the C library keeps is no need
    tokens = 16 * training.batch * model.context  # an estimate has the tokens of one part
    assert least(recipe, vocab_size=300) <= held + tokens


def test_ways_are_all_parts_of_a_batch() -> None:
    assert ways(12, micro_batch="auto", recompute=False) == [Fit(part) for part in (None, 6, 4, 3, 2, 1)]
    assert ways(16, micro_batch="auto", recompute=False) == [Fit(part) for part in (None, 8, 4, 2, 1)]
    assert ways(1, micro_batch="auto", recompute=True) == [Fit(None, True)]
    assert len(ways(2**31 - 1, micro_batch="auto", recompute=False)) == 2  # a prime, and at once


def test_what_fits_is_not_refused_and_what_does_not_is(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = check({"training": {"device": "cpu"}})
    need = least(recipe, vocab_size=300)
    monkeypatch.setattr(memory, "room", lambda: need)
    refuse_beyond_memory_of(recipe, vocab_size=300)
    monkeypatch.setattr(memory, "room", lambda: need - 1)
    with pytest.raises(
        InputError, match=r"Training this model takes at least .* of memory, and .* can be had"
    ):
        refuse_beyond_memory_of(recipe, vocab_size=300)
    monkeypatch.setattr(memory, "room", lambda: None)  # a system that does not tell
    refuse_beyond_memory_of(recipe, vocab_size=300)


@pytest.mark.parametrize(
    "tree",
    [
        {"model": {"width": 1_000_000}},
        {"model": {"layers": 10_000, "width": 4096}},
        {"model": {"context": 2**24}, "training": {"batch": 1024}},
        {"training": {"batch": 2**31 - 1}},
        {"model": {"ngrams": {"kind": "hashed", "buckets": 2**31}}},
        {"model": {"feed_forward": {"kind": "gelu", "width": 2**22}, "width": 2**16}},
    ],
)
def test_shapes_beyond_the_machine_are_refused_at_once(tree: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "room", lambda: 64 << 30)
    recipe = check({**tree, "training": {"device": "cpu", **tree.get("training", {})}})
    with pytest.raises(InputError, match="of memory"):
        refuse_beyond_memory_of(recipe, vocab_size=65)


def test_a_model_is_refused_before_its_weights_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    config = check({}).model
    monkeypatch.setattr(memory, "room", lambda: 1000)
    with pytest.raises(InputError, match="The weights of this model take at least"):
        build_model(config, vocab_size=65, seed=1)
    with torch.device("meta"):
        build_model(config, vocab_size=65, seed=1)


def test_a_step_far_beyond_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = check({"training": {"device": "cpu", "micro_batch": None}})
    model = build_model(recipe.model, vocab_size=65, seed=1)
    need = estimated(recipe, recipe.training, Fit(None, True), vocab_size=65).memory.total
    how = {"decided": {}, "device": torch.device("cpu"), "report": lambda sentence: None}
    monkeypatch.setattr(fitting, "free_memory", lambda device: 1)
    monkeypatch.setattr(memory, "room", lambda: need // 2 + 1)
    assert fitting.open_ways(model, recipe, recipe.training, **how) == [Fit(None, True)]
    monkeypatch.setattr(memory, "room", lambda: need // 3)
    with pytest.raises(InputError, match="A step takes at least"):
        fitting.open_ways(model, recipe, recipe.training, **how)


def test_room_is_at_least_what_is_free() -> None:
    there, free = memory.room(), memory.available_memory()
    assert there is None or free is None or there > 0.5 * free  # other programs come and go in between


def test_the_systems_errors_in_words() -> None:
    def said(error: BaseException) -> OctavoError | None:
        return memory.fault_of_the_machine(error)

    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60)
    assert "more memory than there is" in str(said(raised.value))
    for size, kind in ((2**56, MemoryError), (2**60, ValueError)):
        with pytest.raises(kind) as numpy:
            np.empty(size)
        assert "more memory than there is" in str(said(numpy.value))
    assert str(said(OSError(5, "Input/output error", "x.txt"))) == "x.txt: Input/output error."
    assert isinstance(said(OSError(36, "File name too long", "x" * 300)), InputError)
    assert said(RuntimeError("shapes do not match")) is None
    assert said(KeyError("step")) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_own_pages_are_zeros_that_no_other_process_writes_on() -> None:
    pages = own_pages(3 << 20)
    assert len(pages) == 3 << 20 and not any(pages[::4096])
    if (child := os.fork()) == 0:
        pages[0] = 1
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and pages[0] == 0


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells of pages")
def test_large_pages_are_asked_for_where_linux_gives_them() -> None:
    """Of shared memory (`sh`), it is another setting, which most systems have off."""
    pages = own_pages(3 << 20, large=True)
    at = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    ranges = re.findall(
        r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags: ([^\n]*)", Path("/proc/self/smaps").read_text(), re.M | re.S
    )
    [flags] = [flags.split() for low, high, flags in ranges if int(low, 16) <= at < int(high, 16)]
    assert "hg" in flags and "sh" not in flags
