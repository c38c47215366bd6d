"""docs/tiles.md names what the tile library has, and its example compiles."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
INCLUDE = ROOT / "include"
PAGE = (ROOT / "docs" / "tiles.md").read_text()

# Operations are defined in ops/, or in the architecture's file of the same name.
HEADERS = sorted((INCLUDE / "hk" / "ops").glob("*.h")) + [
    INCLUDE / "hk" / "arch" / "host" / f"{name}.h"
    for name in ("memory", "mma", "reductions")
]
# Nested namespaces hold what operations are made of.
NESTED = re.compile(r"^namespace (\w+) \{$.*?^\}  // namespace \1$", re.M | re.S)
OPERATION = re.compile(r"^(?:HK_INLINE|HK_NOINLINE) [\w:<>, ]+? (\w+)\(", re.M)
ROOMS = re.compile(r"^(?:namespace hk \{|\}  // namespace hk)$", re.M)


def operations():
    names = set()
    for header in HEADERS:
        public = NESTED.sub("", ROOMS.sub("", header.read_text()))
        names |= set(OPERATION.findall(public))
    return names


def section(title):
    """The text under a heading of level two, up to the next one."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_operations_are_found():
    assert {"map", "add_row", "tril", "load", "store", "mma_AB", "row_reduce"} <= (
        operations()
    )
    assert not {"multiply", "copy_row", "dot_step"} & operations()


@pytest.mark.parametrize("name", sorted(operations()))
def test_every_operation_is_on_the_page(name):
    places = section("Verbs") + section("What an architecture defines")
    assert re.search(rf"`{name}[(`]|, {name}\(", places), f"docs/tiles.md lacks {name}"


def test_every_operation_on_the_page_exists():
    rows = re.findall(r"^\| (`.*?) \|", section("Verbs"), re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)\(", row)}
    assert named <= operations()
    assert len(named) > 40


def test_the_example_compiles(tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler (c++) here")
    source = tmp_path / "example.cc"
    source.write_text(re.search(r"```cpp\n(.*?)```", PAGE, re.S).group(1))
    subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-psabi"]
        + ["-Werror", f"-I{INCLUDE}", str(source)],
        check=True,
    )
