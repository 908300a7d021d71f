"""What a package has beyond the files of `src`: kernels for one platform, the commit, and what it is made of.

OCTAVO_PLATFORM names the platform of a wheel (see packaging/kernels.py); without it a wheel has no kernels, fits every
system, and compiles them where it runs. OCTAVO_SITE names a folder of the documentation, built, which goes into the
source distribution.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "octavo/_kernels"


class Kernels(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling calls it before it packs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say what is to be packed besides."""
        if version == "editable":  # a checkout knows its commit, and compiles what it has now
            return
        sys.path.insert(0, str(Path(self.root) / "packaging"))
        import kernels
        import materials

        platform = os.environ.get("OCTAVO_PLATFORM", "") if self.target_name == "wheel" else ""
        folder = Path(self.root) / "build" / "kernels" / (platform or "none")
        folder.mkdir(parents=True, exist_ok=True)
        variants = kernels.build(platform, folder) if platform else {}
        names = [kernels.write_facts(folder, variants).name, *(one["file"] for one in variants.values())]
        place = PLACE if self.target_name == "wheel" else f"src/{PLACE}"
        build_data["force_include"].update({str(folder / name): f"{place}/{name}" for name in names})
        if self.target_name == "sdist" and (site := os.environ.get("OCTAVO_SITE")):
            build_data["force_include"][site] = "site"
        if self.target_name == "wheel":
            sbom = folder / "octavo.cdx.json"
            materials.write(sbom, platform)
            build_data["sbom_files"].append(str(sbom.relative_to(self.root)))
        if platform:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
