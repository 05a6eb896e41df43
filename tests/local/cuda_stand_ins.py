"""Makes stand-ins for the CUDA libraries that torch's Linux wheel wants to find, and never uses.

    pip install --no-deps torch
    python tests/local/cuda_stand_ins.py build/stand_ins
    LD_LIBRARY_PATH=build/stand_ins python -c "import torch; print(torch.ones(2) @ torch.ones(2))"

The wheel for Linux on x86-64 computes on the CPU as well, but loads only where some gigabytes of
CUDA libraries are. A stand-in has the same functions, all of which report an error, so that torch
finds no graphics card. Needs gcc and binutils. For tests only.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

NEEDED = re.compile(r"NEEDED.*\[(lib(?:cu|nccl|nvrtc|nvshmem|nvJitLink)[\w.]*)\]")
SYMBOL = re.compile(r"^\s+[Uw] (\w+)(?:@+(\S+))?$", re.MULTILINE)
NO_DEVICE = 100
"""CUDA's own number for that."""
UNVERSIONED = ("cu", "nccl", "nvshmem", "nvrtc")


def _told(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def torch_libraries() -> list[Path]:
    """Return the libraries of the installed torch, which need not load."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("torch is not installed; see the top of this file")
    return sorted((Path(spec.origin).parent / "lib").glob("*.so"))


def _symbols(library: Path) -> Iterator[tuple[str, str]]:
    """Yield what a library takes from others: the version, which may be empty, and the name."""
    for name, version in SYMBOL.findall(_told("nm", "-D", "--undefined-only", str(library))):
        yield version, name


def main(folder: Path) -> None:
    """Write the stand-ins into a folder."""
    needed: set[str] = set()
    wanted: dict[str, set[str]] = defaultdict(set)
    for library in torch_libraries():
        needed |= set(NEEDED.findall(_told("readelf", "-d", str(library))))
        for version, name in _symbols(library):
            wanted[version].add(name)
    loose = {name for name in wanted.pop("", ()) if name.startswith(UNVERSIONED)}
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(needed):
        versions = [name, "NVSHMEM"] if "nvshmem" in name else [name]
        _compile(folder / name, {one: wanted.get(one, set()) for one in versions}, loose)
        loose = set()  # one library has what no library is named for


def _function(name: str) -> str:
    if name.endswith(("ErrorString", "ErrorName")):
        return f'const char *{name}(void) {{ return "a stand-in"; }}\n'
    return f"int {name}(void) {{ return {NO_DEVICE}; }}\n"


def _compile(library: Path, wanted: dict[str, set[str]], loose: set[str]) -> None:
    names = set().union(loose, *wanted.values())
    source = library.with_suffix(".c")
    source.write_text("".join(map(_function, sorted(names))))
    script = library.with_suffix(".map")
    groups = [
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(found | {'nothing'}))} }};"
        for version, found in wanted.items()
    ]
    script.write_text("\n".join(groups))
    _told(
        *("gcc", "-w", "-fno-builtin", "-shared", "-fPIC", str(source), "-o", str(library)),
        *(f"-Wl,-soname,{library.name}", f"-Wl,--version-script={script}"),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
