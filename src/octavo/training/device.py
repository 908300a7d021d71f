"""Where and in what arithmetic a run computes: threads, device, precision, each tested before it is trusted."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from octavo.data.batch import Batch
from octavo.errors import InputError
from octavo.training.distributed.parallel import ALONE, World
from octavo.training.objective import NEXT_TOKEN, Objective, logits_of

# torch.compile, where it is worth its time: whole models on a processor, block by block on a GPU.

LONG = 1000  # steps that repay the seconds that compiling a block takes on a GPU


def compiles(wanted: bool | Literal["auto"], device: torch.device, *, steps: int) -> bool:
    """Whether a run of so many steps is compiled."""
    return device.type == "cuda" and steps >= LONG if wanted == "auto" else wanted


def compiled(model: nn.Module, device: torch.device, *, alone: bool = True) -> nn.Module:
    """The same model, compiled, with the same weights; the one that is given stays as it is.

    Blocks are alike, so that compiling one of them compiles all; the whole takes several times as long.
    """
    if device.type != "cuda" or not alone:
        return torch.compile(model)  # pyrefly: ignore  # it is a module
    twin = copy.deepcopy(model, {id(each): each for each in (*model.parameters(), *model.buffers())})
    for stack in (module for module in twin.modules() if isinstance(module, nn.ModuleList)):
        for block in stack:
            block.compile()
    return twin


# bfloat16 has to win clearly: a near tie could fall either way on two starts, and runs must repeat.
CLEAR_GAIN = 1.2

SHORT_PASS = 1e10  # floating-point operations, of a pass that tells how many threads are fast

# Names and numbers of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3

Report = Callable[[str], None]


@dataclass(frozen=True)
class Runtime:
    """The device and arithmetic that a run was given, and who computes with it."""

    device: torch.device
    precision: str  # float32 or bfloat16
    threads: int
    micro_batch: int | None = None  # sequences at once; None: a whole batch
    recompute: bool = False
    world: World = ALONE
    most: int = 1  # threads that may compute when others leave the machine alone

    def autocast(self) -> AbstractContextManager[Any]:
        """The context in which losses are computed."""
        return autocast(self.precision, self.device)

    def describe(self) -> dict[str, Any]:
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del own["world"], own["most"]
        return {**own, "device": str(self.device)}


def set_threads(wanted: int | None) -> int:
    """Use so many CPU threads (default: torch's own count, one a physical core); returns the number in force.

    Raises InputError for many times as many as there are cores, which the library's pool does not survive everywhere.
    """
    most = max(64, 8 * (os.cpu_count() or 1))
    if wanted is not None and wanted > most:
        raise InputError(
            f"{wanted} threads are too many for {os.cpu_count() or 1} cores; at most {most} can be started.",
            remedy="leave training.threads out",
        )
    if wanted is not None and wanted != torch.get_num_threads():
        torch.set_num_threads(wanted)
    return torch.get_num_threads()


def choose_threads(
    wanted: int | None,
    model: nn.Module,
    probe: Batch[Tensor],
    device: torch.device,
    report: Report,
    *,
    objective: Objective = NEXT_TOKEN,
) -> int:
    """So many CPU threads as wanted; without a wish all that torch uses, or one where others use the machine so much
    that it is faster by far. Returns the number, which is then in force.
    """
    most = set_threads(wanted)
    if wanted is not None or most == 1 or device.type != "cpu":
        return most
    chosen, ratio = faster(most, pass_timing(model, probe, most, objective=objective))
    if chosen != most:
        report(
            f"threads: {chosen}, because other programs use the cores ({most} take {ratio:.0f} times as long). "
            f"Results may differ in the last bits from those of {most} threads; training.threads={most} insists."
        )
    return set_threads(chosen)


def pass_timing(
    model: nn.Module, probe: Batch[Tensor], most: int, *, objective: Objective = NEXT_TOKEN
) -> Timing:
    """Times passes in float32 over a part of the probe that is short for one thread too; changes nothing."""
    rows = max(1, probe.rows // most)
    weights = sum(weight.numel() for weight in model.parameters())
    positions = max(8, int(SHORT_PASS / (6 * weights * rows)))
    part = probe.corner(rows, positions)

    def seconds(threads: int) -> float:
        before = torch.get_num_threads()
        set_threads(threads)
        try:
            runtime = Runtime(torch.device("cpu"), "float32", threads)
            return step_seconds(model, part, runtime, objective=objective, repeats=1)
        finally:
            set_threads(before)

    return seconds


def keep_memory() -> None:
    """Let the process keep what it frees, where its C library is glibc; it stays as large as it was at its largest.

    Otherwise blocks beyond 32 MB go back to the system after each use and come again page by page, which takes a
    quarter of a step of 64 × 256 tokens at width 384.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(option, 2**31 - 1)


KNOWN = ("cpu", "cuda", "mps")
"""Kinds of devices that models are trained on."""


def accelerator() -> str | None:
    """The name of the accelerator that torch sees, if any."""
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return None


def choose_device(
    wanted: str,
    model: nn.Module,
    probe: Batch[Tensor],
    report: Report,
    *,
    objective: Objective = NEXT_TOKEN,
) -> torch.device:
    """The device for `wanted` (auto, cpu, cuda, …), after the device check; an accelerator that fails it is not used.

    Raises InputError for a device that does not exist here.
    """
    name = (accelerator() or "cpu") if wanted == "auto" else wanted
    try:
        device = torch.device(name)
        if wanted != "auto" and device.type not in KNOWN:
            raise RuntimeError(f"known ones are {', '.join(KNOWN)}")
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"There is no device '{name}' here: {str(error).splitlines()[0]}", remedy="training.device=cpu"
        ) from error
    if device.type == "cpu":
        return torch.device("cpu")
    complaint = device_check(model, probe, device, objective=objective)
    if complaint:
        report(f"{name} gives other results than the CPU ({complaint}); training on the CPU instead.")
        return torch.device("cpu")
    report(f"{name} passed the device check: logits, gradients and greedy tokens agree with the CPU.")
    return device


def device_check(
    model: nn.Module,
    probe: Batch[Tensor],
    device: torch.device,
    *,
    objective: Objective = NEXT_TOKEN,
    transform: Callable[[nn.Module], nn.Module] = lambda module: module,
) -> str | None:
    """Compare a model on the CPU with the same weights on `device` (through `transform`, for example torch.compile).

    Returns None when logits, gradients and greedy tokens agree, else what does not.
    """
    reference = copy.deepcopy(model).eval()
    tested = copy.deepcopy(model).to(device).eval()
    results = []
    for module, place in ((reference, torch.device("cpu")), (transform(tested), device)):
        here = probe.to(place)
        logits = logits_of(module, here)
        (objective.loss(module, here).total / here.targets.numel()).backward()
        results.append((logits.detach().cpu(), greedy(module, here).cpu()))
    if relative_error(results[0][0], results[1][0]) > 1e-3:
        return "logits differ"
    for (name, expected), (_, actual) in zip(
        reference.named_parameters(), tested.named_parameters(), strict=True
    ):
        if expected.grad is None:
            continue
        if actual.grad is None or relative_error(dense(expected.grad), dense(actual.grad).cpu()) > 1e-2:
            return f"the gradient of {name} differs"
    if not torch.equal(results[0][1], results[1][1]):
        return "greedy tokens differ"
    return None


def greedy(model: nn.Module, probe: Batch[Tensor]) -> Tensor:
    """Up to 20 likeliest tokens after the first of a batch, (1, T); of a model of numbers the first row alone."""
    one, found = (
        dataclasses.replace(probe.rows_at(slice(1)), segments=None, prefix=None),
        probe.inputs[:1, :1],
    )
    if found.is_floating_point():
        return found
    with torch.no_grad():
        for _ in range(min(20, probe.inputs.size(1) - 1)):
            after = logits_of(model, dataclasses.replace(one, inputs=found))
            found = torch.cat((found, after[:, -1:].argmax(dim=-1)), dim=1)
    return found


def dense(gradient: Tensor) -> Tensor:
    """A gradient, of a table's rows too, whole."""
    return gradient.to_dense() if gradient.is_sparse else gradient


def relative_error(expected: Tensor, actual: Tensor) -> float:
    """Largest difference, as a share of the largest expected value; infinite where something is not a number."""
    if not (torch.isfinite(actual).all() and torch.isfinite(expected).all()):
        return float("inf")
    scale = expected.abs().max().clamp_min(1e-6)
    return ((expected - actual).abs().max() / scale).item()


def choose_precision(
    wanted: str,
    model: nn.Module,
    probe: Batch[Tensor],
    device: torch.device,
    report: Report,
    *,
    objective: Objective = NEXT_TOKEN,
) -> str:
    """float32 or bfloat16; `auto` times a training pass in both where the hardware has bfloat16 arithmetic."""
    if wanted != "auto":
        return wanted
    if not fast_bfloat16(device):
        return "float32"
    rounds = [  # in turn, and the best of each: other work on the machine must not decide
        {
            name: step_seconds(model, probe, Runtime(device, name, 0), objective=objective)
            for name in ("float32", "bfloat16")
        }
        for _ in range(3)
    ]
    seconds = {name: min(took[name] for took in rounds) for name in rounds[0]}
    gain = seconds["float32"] / seconds["bfloat16"]
    chosen = "bfloat16" if gain >= CLEAR_GAIN else "float32"
    report(f"precision: {chosen} (a pass in bfloat16 is {gain:.2f} times as fast here as in float32)")
    return chosen


def step_seconds(
    model: nn.Module,
    probe: Batch[Tensor],
    runtime: Runtime,
    *,
    objective: Objective = NEXT_TOKEN,
    repeats: int = 2,
) -> float:
    """Shortest time of a forward and backward pass over the probe, after a warm-up; gradients are cleared."""
    probe = probe.to(runtime.device)
    tested = model.to(runtime.device)
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        with runtime.autocast():
            loss = objective.loss(tested, probe).total / probe.targets.numel()
        loss.backward()
        loss.item()  # waits for the device
        times.append(time.perf_counter() - begin)
        tested.zero_grad(set_to_none=True)
    return min(times[1:])


def fast_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware (on a CPU: by AVX-512 or AMX instructions)."""
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """The context in which a forward pass computes in `precision` (float32 or bfloat16) on `device`.

    On a CPU only the matrix products are taken in bfloat16: everything else is bound by memory and by the number of
    operations there, and torch's own autocast adds to both.
    """
    if precision == "float32":
        return nullcontext()
    return Bfloat16Products() if device.type == "cpu" else torch.autocast(device.type, dtype=torch.bfloat16)


class Bfloat16Products(TorchFunctionMode):
    """Within this context every linear layer multiplies in bfloat16, forward and backward; in and out is float32.

    Out of a layer whose weight has `short_output` set, bfloat16 comes: what it feeds rounds to that anyway.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Put the product in the place of `F.linear`."""
        if func is F.linear:
            return linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear` with its product in bfloat16."""
    product = _Product.apply(input, weight)
    return product if bias is None else product + bias


FAST_ON_CPU = fast_bfloat16(torch.device("cpu"))
"""Whether this processor multiplies bfloat16 itself; known before anything is compiled."""


def times(a: Tensor, b: Tensor) -> Tensor:
    """a · b of bfloat16 matrices on a CPU, summed in float32. Without such arithmetic torch takes some fifty times as
    long as in float32, in which the same products are exact."""
    return a @ b if FAST_ON_CPU else (a.float() @ b.float()).bfloat16()


class _Product(torch.autograd.Function):
    """x (…, C) times weight (F, C) transposed, and both gradients, multiplied in bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows, short = x.reshape(-1, x.size(-1)).bfloat16(), weight.bfloat16()
        ctx.save_for_backward(rows, short)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        y = times(rows, short.T)
        y = y if getattr(weight, "short_output", False) else y.float()
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:  # pyrefly: ignore
        rows, short = ctx.saved_tensors
        gradient = gradient.reshape(-1, gradient.size(-1)).bfloat16()
        trained = ctx.needs_input_grad[1]
        to_weight = times(gradient.T, rows).float() if trained else None
        return times(gradient, short).to(ctx.dtype).view(ctx.shape), to_weight


# How many CPU threads compute: all, or one where others use the machine so much that all would wait for each other.
# The threads of a step meet hundreds of times. Where another program computes on their cores, each meeting waits until
# the system gives the core back: a step of 55 ms took 3.4 s. One thread meets nobody. The last bits of a run depend on
# the number of threads, so one thread has to win by far, and every change is written down in the run.

CLEARLY = 2.0
"""All threads together must take so many times as long as one; on a machine of one's own they never do."""
ROUNDS = 3
MANY = 5.0
"""Steps that take so many times as long as usual are answered."""
IN_A_ROW, AT_LEAST = 3, 1.0  # such steps, and their seconds together
USUAL = 32  # steps that tell what is usual
AGAIN, SELDOM = 30.0, 960.0  # seconds until all threads are tried again: at first, at most

Timing = Callable[[int], float]
"""Seconds of a training pass with so many threads."""


def faster(most: int, timing: Timing) -> tuple[int, float]:
    """`most` or 1, whichever computes faster, and how many times as long `most` take as one.

    In turn, and the best of each: a moment's disturbance must not decide. Where `most` are not slow, once is enough.
    """
    together, alone = [], []
    for _ in range(ROUNDS):
        together.append(timing(most))
        alone.append(timing(1))
        if min(together) < CLEARLY * min(alone):
            break
    ratio = min(together) / min(alone)
    return (1 if ratio >= CLEARLY else most), ratio


class Pace:
    """Notices when steps take many times as long as usual."""

    def __init__(self) -> None:
        self._usual: deque[float] = deque(maxlen=USUAL)
        self._slow: list[float] = []

    @property
    def usual(self) -> float:
        """Median seconds of a step so far."""
        return statistics.median(self._usual) if self._usual else 0.0

    @property
    def now(self) -> float:
        """Seconds of the slow steps of late."""
        return statistics.median(self._slow) if self._slow else self.usual

    def step(self, seconds: float) -> bool:
        """Note a step; returns whether too many have been slow."""
        if len(self._usual) < IN_A_ROW or seconds < MANY * self.usual:
            self._usual.append(seconds)
            self._slow.clear()
            return False
        self._slow.append(seconds)
        return len(self._slow) >= IN_A_ROW and sum(self._slow) >= AT_LEAST

    def forget(self) -> None:
        """Measure anew: the number of threads changed."""
        self._usual.clear()
        self._slow.clear()


class Crew:
    """The threads of a run while it trains: `most`, or one while others use the machine.

    Args:
        changes: the run's own list of (step, threads): from that step on so many compute.
        first: those that computed before any change.
    """

    def __init__(self, most: int, changes: list[list[int]], timing: Timing, *, first: int) -> None:
        self.most, self.first, self.changes, self._timing = most, first, changes, timing
        self._pace, self._wait, self._since = Pace(), AGAIN, 0.0

    @property
    def threads(self) -> int:
        """The threads that compute now."""
        return self.changes[-1][1] if self.changes else self.first

    def after_step(self, step: int, seconds: float) -> str:
        """See whether another number of threads is due; it then stands in `changes`. Returns what to say of it."""
        self._since += seconds
        slow = self._pace.step(seconds)
        if self.threads == self.most:
            return self._alone(step) if slow else ""
        return self._together(step) if self._since >= self._wait else ""

    def _alone(self, step: int) -> str:
        before, now = self._pace.usual, self._pace.now
        chosen, _ = faster(self.most, self._timing)
        self._pace.forget()
        if chosen == self.most:  # slow for another reason
            return ""
        self._change(step, 1)
        return (
            f"after step {step}: a step takes {now / before:.0f} times as long as before ({now:.2g} s), because other "
            f"programs use the cores. Continuing with 1 thread instead of {self.most}; from here on results may differ "
            "in the last bits."
        )

    def _together(self, step: int) -> str:
        self._since = 0.0
        if self._timing(self.most) >= self._timing(1):
            self._wait = min(2 * self._wait, SELDOM)
            return ""
        self._pace.forget()
        self._change(step, self.most)
        return f"after step {step}: the cores are free again; continuing with {self.most} threads"

    def _change(self, step: int, threads: int) -> None:
        self.changes.append([step + 1, threads])
        self._since = 0.0


def changes_in_words(changes: Sequence[Sequence[int]]) -> str:
    """The (step, threads) of a run, for a reader."""
    return ", ".join(
        f"{threads} thread{'s' * (threads > 1)} from step {step} on" for step, threads in changes
    )


# The threads of a run on a machine that others use from the start, where no step is slower than the ones
# before.

FIRST = 3.0
"""Seconds after which it is first looked at; each look in vain makes the next one wait twice as long."""
OURS = 0.85
"""The share of its threads' time with less of which others may use the cores. Alone a run has 0.99, for threads that
wait for each other compute."""
SHORT, SUSTAINED, MOST = 0.3, 1.0, 100
"""Seconds of passes, fewer where the difference is large, and how many passes at most. A single one may have the cores
for itself: who has waited goes first."""


class Watch:
    """How much of the cores this process has, from now on."""

    def __init__(self) -> None:
        self._began, self._worked = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """By the clock."""
        return time.monotonic() - self._began

    def share(self, threads: int) -> float:
        """Of the time of so many threads, what they had; 1 is all of it."""
        return (time.process_time() - self._worked) / (threads * max(self.seconds(), 1e-9))

    def ours(self, threads: int) -> bool:
        """Whether so many threads had their time, as they have where nobody else computes."""
        return self.share(threads) >= OURS


class WatchfulCrew(Crew):
    """A `Crew` that times for longer than a moment, and looks at its share of the cores too: where the system gives its
    threads less than their time, all of them are timed beside one, and one goes on where it is faster by far.
    """

    def __init__(self, most: int, changes: list[list[int]], timing: Timing, *, first: int) -> None:
        super().__init__(most, changes, self._timed, first=first)
        self._pass, self._look = timing, FIRST
        self._found: dict[int, float] = {}
        self._watch = Watch()

    def after_step(self, step: int, seconds: float) -> str:
        sentence = super().after_step(step, seconds)
        if not sentence and self.threads == self.most:
            if self._watch.seconds() < self._look:
                return ""
            sentence = "" if self._watch.ours(self.most) else self._alone_from_the_start(step)
        self._watch = Watch()
        return sentence

    @property
    def times(self) -> float:
        """How many times as long as with the other number of threads a pass takes now, when both were last timed."""
        now, other = self.threads, 1 if self.threads == self.most else self.most
        return self._found.get(now, 1.0) / self._found.get(other, 1.0)

    def _timed(self, threads: int, seconds: float = SUSTAINED) -> float:
        self._found[threads] = sustained(self._pass, threads, seconds)
        return self._found[threads]

    def _alone_from_the_start(self, step: int) -> str:
        ratio = self._timed(self.most, SHORT) / self._timed(1, SHORT)
        if 1 <= ratio < 2 * CLEARLY:  # in doubt
            ratio = self._timed(self.most) / self._timed(1)
        if ratio < CLEARLY:
            self._look = min(2 * self._look, SELDOM)
            return ""
        self._pace.forget()
        self._change(step, 1)
        self._wait = min(2 * self._wait, SELDOM)  # the cores seemed free when it was last looked
        return (
            f"after step {step}: other programs use the cores, and {self.most} threads take {ratio:.0f} times as long "
            "as one. Continuing with 1 thread; from here on results may differ in the last bits."
        )


def sustained(timing: Timing, threads: int, seconds: float) -> float:
    """Seconds of a pass, the mean of as many as take a while."""
    taken = [timing(threads)]
    while sum(taken) < seconds and len(taken) < MOST:
        taken.append(timing(threads))
    return sum(taken) / len(taken)
