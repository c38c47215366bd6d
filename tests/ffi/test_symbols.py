"""Objects of different instruction sets share no symbol that the linker could merge.

If two of them defined one weak symbol, such as a template of the standard library, the
linker would keep either: the plain path might then run AVX-512 on a CPU without it.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OBJECTS = sorted(ROOT.glob("build/*/ffi/CMakeFiles/host_*.dir/host/*.o"))


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm, of binutils")
@pytest.mark.skipif(not OBJECTS, reason="the package was not built in this folder")
def test_every_symbol_lies_in_the_namespace_of_its_instruction_set():
    for path in OBJECTS:
        isa = path.parents[1].name.removesuffix(".dir")
        listing = subprocess.run(
            ["nm", "--extern-only", "--defined-only", path],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        symbols = [line.split()[-1] for line in listing.splitlines()]
        # hk::<isa>:: as it is mangled: each name after its length.
        inside = re.compile(rf"2hk{len(isa)}{isa}")
        assert symbols, f"{path} defines nothing"
        assert [name for name in symbols if not inside.search(name)] == [], path
