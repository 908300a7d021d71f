"""octavo verify: repeat the proof of an export, on any machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Json
from octavo.cli.export import show_exported


def verify_command(
    folder: Annotated[Path, Parameter(help="A folder that octavo export wrote.")], *, json: Json = False
) -> int:
    """Open an export by its own library and compare it again with what the run said. The run is not needed.

    Files that are not as they were written count as a miss. Exit code 1 where anything misses.

    For example:

    octavo verify bard-hf
    """
    from octavo.export.export import verify

    exported = verify(folder)
    show_exported([(exported.target, str(exported.folder), exported.certificate)], json=json)
    return 1 if exported.missed else 0
