"""Trainings by several processes, for the tests: a script that forks them, and prints what the first one found.

python together.py SIZE '[{"kind": "ddp", …}, …]' → a JSON list, one entry for each case.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from octavo.config import check
from octavo.config.parts import parts
from octavo.data.batch import Batch
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.training import optimizers
from octavo.training.checkpoint import Checkpoint, learning_tensors, model_tensors
from octavo.training.distributed.parallel import World, gradients_sent, held, launched, whole
from octavo.training.loop import training_steps
from octavo.training.objective import NEXT_TOKEN
from octavo.training.step import StepOptions

V, T, B = 17, 16, 8


def batch(step: int, micro: int) -> Batch[np.ndarray]:
    """Each token is followed by the next number; the second half of the first rows is not scored."""
    inputs = np.random.default_rng([step, micro]).integers(V, size=(B, T))
    targets = (inputs + 1) % V
    targets[:3, T // 2 :] = -1
    return Batch(inputs, targets)


def config(**model: Any) -> GPTConfig:
    return GPTConfig.model_validate({"layers": 2, "width": 32, "heads": 2, "context": T, **model})


def train(case: dict[str, Any], world: World) -> dict[str, Any]:
    """Losses, norms and the lengths of all tensors in the end, of a training in float32 throughout."""
    with mock.patch.object(optimizers, "fast_bfloat16", lambda device: False):
        return trained_by(case, world)


def trained_by(case: dict[str, Any], world: World) -> dict[str, Any]:
    model = build_model(config(**case.get("model", {})), vocab_size=V, seed=0)
    if "adapters" in case:
        parts("adapters")["lora"](**case["adapters"]).attach(model, added=3, seed=0)
    trained = parts("parallel")[case["kind"]]().build(model, world)
    optimizer = parts("optimizer")[case["optimizer"]]()
    built = optimizer.build(model)
    infos = training_steps(
        trained,
        built,
        batch,
        steps=range(case["steps"]),
        seed=3,
        schedule=lambda step: 1.0 - step / 100,
        options=StepOptions(accumulation=case.get("accumulation", 1), clip=0.5, world=world),
    )
    found = [asdict(info) for info in infos]
    tensors = {**model_tensors(model), **learning_tensors(model, built)}
    return {
        "infos": found,
        "tensors": {name: tensor.double().norm().item() for name, tensor in tensors.items()},
    }


def gradients(case: dict[str, Any], world: World) -> dict[str, Any]:
    """Whether there is a gradient, and the same in all, after a backward pass that keeps it and one that sends it."""
    model = build_model(config(), vocab_size=V, seed=0)
    trained = parts("parallel")[case["kind"]]().build(model, world)
    found = {}
    for now in (False, True):
        mine = world.shard(batch(0, int(now))).to("cpu")
        with gradients_sent(trained, now=now):
            (NEXT_TOKEN.loss(trained, mine).total / 100).backward()
        there = [whole(p.grad) for p in model.parameters() if p.grad is not None]
        norm = sum(float(gradient.norm()) for gradient in there)
        found["sent" if now else "kept"] = [bool(there), abs(norm - world.mean(norm)) < 1e-9]
    return found


def rows(case: dict[str, Any], world: World) -> list[list[float] | None]:
    """What each process loads of the squares of a table that two share."""
    local = DTensor.from_local(torch.zeros(4, 3), init_device_mesh("cpu", (2,)), [Shard(0)])
    optimizer = optimizers.RowAdagrad([table := nn.Parameter(local)], lr=0.1)
    Checkpoint(Path(case["folder"])).load_optimizers([optimizer])
    found: list[list[float] | None] = [None, None]
    dist.all_gather_object(found, held(optimizer.state[table]["squares"])[:, 0].tolist())
    return found


def found_by(world: World, cases: list[dict[str, Any]]) -> list[Any]:
    torch.set_num_threads(1)
    return [globals()[case.get("do", "train")](case, world) for case in cases]


def run(size: int, cases: list[dict[str, Any]]) -> list[Any]:
    """What `size` processes find."""
    done = subprocess.run(
        [sys.executable, __file__, str(size), json.dumps(cases)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    size, cases = int(sys.argv[1]), json.loads(sys.argv[2])
    for room in ("parallel", "optimizer", "adapters"):
        parts(room)
    check({"corpus": {"kind": "files"}})
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    children = []
    for rank in range(size):
        if not (child := os.fork()):
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            with launched() as world:
                world.meet(120)
                world.connect(torch.device("cpu"))
                found = found_by(world, cases)
            if world.first:
                print(json.dumps(found), flush=True)
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children))


if __name__ == "__main__":
    main()
