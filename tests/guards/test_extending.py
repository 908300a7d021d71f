"""docs/extending.md's walk-through works: its code, as it stands, adds a part that the rest of Octavo finds."""

from __future__ import annotations

from e2e.forked import Octavo
from guards.common import PACKAGE, ROOT
from guards.snippets import blocks

# In a process of its own, so that the new part is not there for the other tests.
USE = """
import sys
import types
import torch
from octavo.config.parts import parts

walkthrough = types.ModuleType("walkthrough")  # pydantic looks a class's names up in its module
sys.modules["walkthrough"] = walkthrough
exec(compile(sys.stdin.read(), "docs/extending.md", "exec"), vars(walkthrough))

config = parts("feed_forward")["geglu"](width=24, bias=True)
layer = config.build(width=16, dropout=0.0)
x = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))
layer(x).square().sum().backward()
assert layer(x).shape == x.shape
assert all(parameter.grad.abs().sum() > 0 for parameter in layer.parameters())
assert config.parameters(width=16) == sum(parameter.numel() for parameter in layer.parameters())
assert config.matrix_parameters(width=16) == sum(p.numel() for p in layer.parameters() if p.ndim == 2)
print("works")
"""


def test_the_walk_through_adds_a_part(server: Octavo) -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = next(block.text for block in blocks(page) if block.language == "python")
    done = server(program=USE, stdin=code.encode())
    assert (done.code, done.out) == (0, "works\n"), done.err


def test_the_imports_of_the_walk_through_are_in_the_file_that_it_names() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = next(block.text for block in blocks(page) if block.language == "python")
    imports = [line for line in code.splitlines() if line.startswith("from ")]
    file = (PACKAGE / "model" / "feedforward.py").read_text(encoding="utf-8")
    for line in imports[:-1]:  # the last one names the file itself
        module, _, names = line.partition(" import ")
        here = next(other for other in file.splitlines() if other.startswith(f"{module} import "))
        assert set(names.split(", ")) <= set(here.partition(" import ")[2].split(", "))
