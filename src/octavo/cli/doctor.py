"""octavo doctor: what this machine has, and what to install."""

from __future__ import annotations

from octavo.cli.common import Json, print_json, show


def doctor_command(*, json: Json = False) -> int:
    """Look at this machine: processor, memory, disk, accelerator and its device check, libraries, extras.

    For example:

    octavo doctor

    octavo doctor --json
    """
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
