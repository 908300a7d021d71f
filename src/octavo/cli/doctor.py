"""octavo doctor: what this machine has, and what to install."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, print_json, show


def doctor_command(
    *,
    json: Json = False,
    prove: Annotated[
        Path | None, Parameter(help="Only try a library of kernels: does it what torch does?")
    ] = None,
) -> int:
    """Look at this machine: processor, memory, disk, kernels, accelerator and its device check, libraries, extras.

    For example:

    octavo doctor

    octavo doctor --json
    """
    if prove is not None:
        return proven(prove)
    from octavo.run.doctor import examine
    from octavo.util.records import plain

    examined = examine()
    if json:
        print_json(plain(examined))
    else:
        for name, value in examined.machine.items():
            show(f"{name.replace('_', ' '):<22} {value}")
        show()
        for check in examined.checks:
            show(f"{'ok  ' if check.ok else '--  '} {check.what}")
            if check.remedy:
                show(f"       → {check.remedy}")
    return 0 if all(check.ok or not check.needed for check in examined.checks) else 1


def proven(path: Path) -> int:
    """0 where a library of kernels computes what torch does on this processor; else what is wrong with it is said. A
    library that the processor does not know may end this process."""
    from octavo.util.kernels import DIFFERS, PROVEN

    os.environ["OCTAVO_KERNEL"] = str(path)
    from octavo.generation.proof import prove

    if complaint := prove():
        show(complaint)
        return DIFFERS
    show(PROVEN)
    return 0
