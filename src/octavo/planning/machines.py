"""Machines to predict for: the packaged catalogue, names with counts, and the machine that this runs on, measured."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import resources

import torch

from octavo.config import parse_yaml
from octavo.errors import InputError
from octavo.training.device import fast_bfloat16
from octavo.util.memory import available_memory, room

NAME = re.compile(r"(?:(?:(\d+)x)?(\d+)x)?([a-z][a-z0-9]*)")
EXAMPLES = ("8xh100", "2x8xh100", "4x8xh100")


@dataclass(frozen=True)
class Machine:
    """Equal devices, in one node or several.

    Attributes:
        device: cpu or cuda.
        flops: of dense matrix products in a second at their peak, by precision.
        memory: bytes of one device.
        bandwidth: bytes that one device reads or writes in a second.
        launch: seconds that starting one operation takes.
        share: of the peak that matrix products reach.
        link, network: bytes a second between devices of a node, and out of the node for each device, each way; 0: none.
        price: of one device for an hour.
        count, nodes: devices in a node, and nodes.
    """

    name: str
    what: str
    device: str
    flops: dict[str, float]
    memory: float
    bandwidth: float
    launch: float
    share: float
    link: float = 0.0
    network: float = 0.0
    price: float = 0.0
    count: int = 1
    nodes: int = 1

    @property
    def devices(self) -> int:
        """Devices of all machines together."""
        return self.count * self.nodes

    def precision(self, wanted: str) -> str:
        """What a recipe's precision means here: auto is bfloat16 where the device multiplies it."""
        return ("bfloat16" if "bfloat16" in self.flops else "float32") if wanted == "auto" else wanted


def catalogue() -> dict[str, Machine]:
    """One device of every kind that is shipped, by name."""
    text = resources.files("octavo.planning").joinpath("machines.yaml").read_text(encoding="utf-8")
    return {
        name: Machine(
            name=name,
            what=entry["what"],
            device=entry["device"],
            flops={key: value * 1e12 for key, value in entry["tflops"].items()},
            memory=entry["memory"] * 1e9,
            bandwidth=entry["bandwidth"] * 1e9,
            launch=entry["launch"],
            share=entry["share"],
            link=entry.get("link", 0) * 1e9,
            network=entry.get("network", 0) * 1e9,
            price=entry["price"],
        )
        for name, entry in parse_yaml(text, "machines.yaml").items()
    }


def find_machine(name: str) -> Machine:
    """The machine of a name: `h100`, `8xh100` (a node of eight), `4x8xh100` (four such nodes), `here`.

    Raises InputError for an unknown one, or more devices than its kind can join.
    """
    matched, known = NAME.fullmatch(name.strip().lower()), catalogue()
    kind = matched.group(3) if matched else ""
    if kind != "here" and kind not in known:
        listed = ", ".join([*known, "here"])
        raise InputError(
            f"There is no machine '{name}'.",
            remedy=f"take one of {listed}; a node of eight is written 8xh100, four such nodes 4x8xh100",
        )
    nodes, count = (int(number or 1) for number in matched.groups()[:2]) if matched else (1, 1)
    if min(nodes, count) < 1:
        raise InputError(f"'{name}' has no device.", remedy=f"1x{kind} at the least")
    one = here() if kind == "here" else known[kind]
    if (count > 1 and not one.link) or (nodes > 1 and not one.network):
        raise InputError(
            f"'{name}': how fast several of {kind} exchange data is not in the catalogue.",
            remedy=f"take {kind} alone, or a machine with a link, such as 8xh100",
        )
    return replace(one, name=name.strip().lower(), count=count, nodes=nodes)


def here() -> Machine:
    """This machine's processor, measured in about a second: its peaks are what it reached, so the share is 1."""
    numbers = [torch.float32, *([torch.bfloat16] if fast_bfloat16(torch.device("cpu")) else [])]
    return Machine(
        name="here",
        what="this machine's processor, measured now",
        device="cpu",
        flops={str(dtype).removeprefix("torch."): measured_flops(dtype) for dtype in numbers},
        memory=float(available_memory() or room() or 0),
        bandwidth=measured_bandwidth(),
        launch=measured_launch(),
        share=1.0,
    )


def measured_flops(dtype: torch.dtype, *, size: int = 512, repeats: int = 5) -> float:
    """Floating-point operations a second that a product of square matrices reaches, at best."""
    one, other = torch.ones(size, size, dtype=dtype), torch.ones(size, size, dtype=dtype)
    return 2 * size**3 / best_seconds(lambda: one @ other, repeats)


def measured_bandwidth(*, size: int = 4 << 20, repeats: int = 5) -> float:
    """Bytes a second that an addition of long vectors reads and writes, at best."""
    one, other = torch.ones(size), torch.ones(size)
    result = torch.empty(size)
    return 3 * 4 * size / best_seconds(lambda: torch.add(one, other, out=result), repeats)


def measured_launch(*, times: int = 200, repeats: int = 5) -> float:
    """Seconds that an operation on next to nothing takes, recorded for the backward pass."""
    weight = torch.ones(4, requires_grad=True)

    def several() -> None:
        for _ in range(times):
            weight * weight

    return best_seconds(several, repeats) / times


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    """The shortest of several times, after a warm-up."""
    work()
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)
