"""What a child process is told of its parent's environment."""

from __future__ import annotations

import os

_NEEDED = frozenset(
    (
        *("PATH", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "WINDIR", "VIRTUAL_ENV"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONHASHSEED"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
        *("TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
        *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    )
)

TOLD = {"OCTAVO_PARTS": "[]"}
"""Variables that every child process of ours gets, whatever our own environment holds."""


def plain_environment(**more: str) -> dict[str, str]:
    """The environment for a child that handles what others wrote: where programs and libraries lie, language, threads
    what it is `TOLD`, and `more`. Keys, tokens and passwords stay here, whatever their variables are called."""
    return {**{name: value for name, value in os.environ.items() if name.upper() in _NEEDED}, **TOLD, **more}
