"""Where and in what arithmetic a run computes: the device check sees planted faults, choices are said and kept."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from octavo.config import load_recipe
from octavo.data.batch import Batch
from octavo.errors import InputError
from octavo.model.base import build_model
from octavo.model.gpt import GPT
from octavo.training import device as runtime
from octavo.training.device import (
    Runtime,
    choose_device,
    choose_precision,
    choose_threads,
    device_check,
    pass_timing,
    relative_error,
    set_threads,
)

CPU = torch.device("cpu")


def model(dropout: float = 0.0) -> GPT:
    recipe = load_recipe({"model": {"layers": 2, "width": 16, "heads": 2, "context": 16, "dropout": dropout}})
    return build_model(recipe.model, vocab_size=11, seed=3)


def probe() -> Batch[Tensor]:
    window = torch.arange(2 * 17).mul(7).remainder(11).view(2, 17)
    return Batch(window[:, :-1].contiguous(), window[:, 1:].contiguous())


class Around(nn.Module):
    """A model with something wrong around it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(tokens)


class WrongLogits(Around):
    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.inner(tokens)
        return logits + 0.01 * logits.abs().max()


class OneWrongLogit(Around):
    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.inner(tokens).clone()
        logits[-1, -1, 3] += 1
        return logits


class NotANumber(Around):
    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.inner(tokens).clone()
        logits[0, 0, 0] = float("nan")
        return logits


class WrongGreedy(Around):
    """Right on the probe, wrong on short texts."""

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.inner(tokens)
        return logits if tokens.size(0) > 1 else -logits


def without_a_gradient(module: nn.Module) -> nn.Module:
    next(p for p in reversed(list(module.parameters())) if p.ndim == 2).requires_grad_(False)
    return module


def with_a_wrong_gradient(module: nn.Module) -> nn.Module:
    next(iter(module.parameters())).register_hook(lambda gradient: gradient * 1.5)
    return module


def test_the_cpu_agrees_with_itself_also_under_dropout() -> None:
    assert device_check(model(), probe(), CPU) is None
    assert device_check(model(dropout=0.5), probe(), CPU) is None


def test_the_cpu_agrees_with_itself_where_gradients_are_sparse() -> None:
    recipe = load_recipe({"model": {"layers": 1, "width": 16, "heads": 2, "ngrams": "hashed"}})
    assert device_check(build_model(recipe.model, vocab_size=11, seed=3), probe(), CPU) is None


def test_the_cpu_agrees_with_itself_on_numbers() -> None:
    recipe = load_recipe("forecast-demo")
    rows = torch.randn(2, 17, 2, generator=torch.Generator().manual_seed(1))
    targets = torch.zeros(2, 16, dtype=torch.long)
    numbers = Batch(rows[:, :-1].contiguous(), targets, values=rows[:, 1:].contiguous())
    forecasts = build_model(recipe.model, vocab_size=2, seed=3)
    assert device_check(forecasts, numbers, CPU, objective=recipe.objective.build()) is None
    found = device_check(
        forecasts, numbers, CPU, objective=recipe.objective.build(), transform=with_a_wrong_gradient
    )
    assert found is not None
    assert "gradient of" in found


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (WrongLogits, "logits differ"),
        (OneWrongLogit, "logits differ"),
        (NotANumber, "logits differ"),
        (without_a_gradient, "gradient of"),
        (with_a_wrong_gradient, "gradient of"),
        (WrongGreedy, "greedy tokens differ"),
    ],
)
def test_planted_faults_are_found(fault: type[Around], complaint: str) -> None:
    found = device_check(model(), probe(), CPU, transform=fault)
    assert found is not None
    assert complaint in found


def test_the_device_check_leaves_the_model_as_it_was() -> None:
    tested = model().train()
    before = {name: value.clone() for name, value in tested.state_dict().items()}
    device_check(tested, probe(), CPU, transform=with_a_wrong_gradient)
    assert tested.training
    assert all(torch.equal(value, before[name]) for name, value in tested.state_dict().items())
    assert all(parameter.grad is None for parameter in tested.parameters())


def test_relative_error() -> None:
    assert relative_error(torch.tensor([1.0, -4.0]), torch.tensor([1.0, -3.0])) == 0.25
    assert relative_error(torch.zeros(2), torch.zeros(2)) == 0
    assert relative_error(torch.ones(2), torch.tensor([1.0, float("inf")])) == float("inf")


def test_auto_takes_the_cpu_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "accelerator", lambda: None)
    said: list[str] = []
    assert choose_device("auto", model(), probe(), said.append) == CPU
    assert said == []


def test_an_accelerator_is_used_when_it_passes_and_not_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "accelerator", lambda: "meta")  # a device that torch always has
    for complaint, chosen, words in (
        (None, "meta", "passed the device check"),
        ("logits differ", "cpu", "other results than the CPU (logits differ); training on the CPU instead"),
    ):
        said: list[str] = []
        monkeypatch.setattr(runtime, "device_check", lambda *_, complaint=complaint, **__: complaint)
        assert choose_device("auto", model(), probe(), said.append).type == chosen
        assert len(said) == 1
        assert words in said[0]


@pytest.mark.parametrize("name", ["warp", "cuda:77", "cpu:x", "meta", "hpu"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(InputError, match=f"no device '{name}'") as caught:
        choose_device(name, model(), probe(), print)
    assert caught.value.remedy == "training.device=cpu"


def test_there_is_one_cpu() -> None:
    assert choose_device("cpu:99999", model(), probe(), print) == torch.device("cpu")


def bfloat16_hardware(monkeypatch: pytest.MonkeyPatch, *, has: bool) -> None:
    monkeypatch.setattr(runtime, "fast_bfloat16", lambda device: has)


def test_without_bfloat16_hardware_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    bfloat16_hardware(monkeypatch, has=False)
    monkeypatch.setattr(runtime, "step_seconds", lambda *_: pytest.fail("timed"))
    assert choose_precision("auto", model(), probe(), CPU, print) == "float32"


@pytest.mark.parametrize(
    ("gain", "chosen"),
    [(0.5, "float32"), (1.0, "float32"), (runtime.CLEAR_GAIN - 0.01, "float32"), (2.0, "bfloat16")],
)
def test_bfloat16_has_to_win_clearly(monkeypatch: pytest.MonkeyPatch, gain: float, chosen: str) -> None:
    bfloat16_hardware(monkeypatch, has=True)
    monkeypatch.setattr(
        runtime, "step_seconds", lambda _, __, place, **___: gain if place.precision == "float32" else 1.0
    )
    said: list[str] = []
    assert choose_precision("auto", model(), probe(), CPU, said.append) == chosen
    assert chosen in said[0] and f"{gain:.2f} times" in said[0]


@pytest.mark.parametrize("wanted", ["float32", "bfloat16"])
def test_a_precision_that_is_named_is_taken(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setattr(runtime, "step_seconds", lambda *_: pytest.fail("timed"))
    assert choose_precision(wanted, model(), probe(), CPU, print) == wanted


def test_a_pass_is_timed_in_both_arithmetics_and_leaves_no_gradients() -> None:
    tested = model()
    for precision in ("float32", "bfloat16"):
        assert runtime.step_seconds(tested, probe(), Runtime(CPU, precision, 1), repeats=1) > 0
    assert all(parameter.grad is None for parameter in tested.parameters())


def test_autocast_follows_the_precision() -> None:
    product = {}
    for precision in ("float32", "bfloat16"):
        with Runtime(CPU, precision, 1).autocast():
            product[precision] = nn.functional.linear(torch.full((1, 1), 1.001), torch.ones(1, 1)).item()
    assert product == {"float32": pytest.approx(1.001, abs=1e-6), "bfloat16": 1.0}
    assert Runtime(CPU, "float32", 2, micro_batch=3).describe() == {
        "device": "cpu",
        "precision": "float32",
        "threads": 2,
        "micro_batch": 3,
        "recompute": False,
    }


def test_threads_are_set_and_told() -> None:
    before = torch.get_num_threads()
    try:
        assert set_threads(1) == 1 == torch.get_num_threads()
        assert set_threads(None) == 1
    finally:
        torch.set_num_threads(before)


FAULTS = """
import resource, torch
from octavo.training.device import keep_memory
keep_memory()
for turn in range(20):
    if turn == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(20_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_kept() -> None:
    """10 tensors of 80 MB each are 200,000 pages when each comes from the system anew."""
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, encoding="utf-8", check=True)
    assert int(done.stdout) < 1000


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def busy(monkeypatch: pytest.MonkeyPatch, ratio: float) -> None:
    """A pass with two threads takes so many times as long as with one."""
    monkeypatch.setattr(
        runtime, "step_seconds", lambda *_, **__: ratio if torch.get_num_threads() == 2 else 1.0
    )


@pytest.mark.parametrize(("ratio", "chosen"), [(0.6, 2), (1.5, 2), (60.0, 1)])
def test_one_thread_where_two_are_ruinous(
    two_threads: None, monkeypatch: pytest.MonkeyPatch, ratio: float, chosen: int
) -> None:
    busy(monkeypatch, ratio)
    said: list[str] = []
    assert choose_threads(None, model(), probe(), CPU, said.append) == chosen == torch.get_num_threads()
    assert len(said) == (chosen == 1)
    assert not said or "threads: 1, because other programs use the cores (2 take 60 times as long)" in said[0]


def test_threads_that_are_given_are_taken_untimed(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "step_seconds", lambda *_, **__: pytest.fail("timed"))
    for wanted in (2, 1):
        assert choose_threads(wanted, model(), probe(), CPU, print) == wanted == torch.get_num_threads()
    assert choose_threads(None, model(), probe(), CPU, print) == 1, "nothing to choose"


def test_timing_threads_leaves_model_and_threads_alone(two_threads: None) -> None:
    tested = model()
    before = {name: value.clone() for name, value in tested.state_dict().items()}
    timing = pass_timing(tested, probe(), 2)
    assert timing(1) > 0 and timing(2) > 0
    assert torch.get_num_threads() == 2
    assert all(torch.equal(value, before[name]) for name, value in tested.state_dict().items())
    assert all(parameter.grad is None for parameter in tested.parameters())
