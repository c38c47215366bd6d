"""Assembles small kernels for the simulated device's tests.

A kernel is a listing of instructions; the descriptor and the metadata around it are
written here. The assembler and the linker are those inside the package ziglang.
"""

import functools
import importlib.util
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kernel:
    """One kernel: its instructions and what its descriptor says.

    ``arguments`` holds the size in bytes of each explicit argument; each is aligned to
    its own size, at most 8. ``hidden`` holds (kind, offset, size) of hidden arguments.
    ``descriptor`` holds further ``.amdhsa_`` directives, without that prefix.
    """

    body: str
    name: str = "kernel"
    arguments: tuple[int, ...] = (8,)
    hidden: tuple[tuple[str, int, int], ...] = ()
    vgprs: int = 128
    agprs: int = 0
    sgprs: int = 96
    lds: int = 0
    scratch: int = 0
    workgroup_ids: str = "x"
    workitem_ids: int = 0
    max_threads: int = 1024
    descriptor: tuple[tuple[str, int], ...] = ()

    def offsets(self) -> list[int]:
        """Returns where each explicit argument lies in the kernarg segment."""
        offsets, end = [], 0
        for size in self.arguments:
            align = min(8, 1 << (size - 1).bit_length())
            end = (end + align - 1) // align * align
            offsets.append(end)
            end += size
        return offsets

    def kernarg_size(self) -> int:
        """Returns the size in bytes of the kernarg segment."""
        explicit = list(zip(self.offsets(), self.arguments, strict=True))
        hidden = [(offset, size) for _, offset, size in self.hidden]
        return max((offset + size for offset, size in explicit + hidden), default=0)


def _directives(kernel: Kernel) -> str:
    accum_offset = (kernel.vgprs + 3) // 4 * 4
    values = {
        "group_segment_fixed_size": kernel.lds,
        "private_segment_fixed_size": kernel.scratch,
        "kernarg_size": kernel.kernarg_size(),
        "user_sgpr_kernarg_segment_ptr": 1,
        "next_free_vgpr": accum_offset + kernel.agprs,
        "next_free_sgpr": kernel.sgprs,
        "accum_offset": accum_offset,
        "system_vgpr_workitem_id": kernel.workitem_ids,
        "enable_private_segment": int(kernel.scratch > 0),
    }
    for axis in "xyz":
        values[f"system_sgpr_workgroup_id_{axis}"] = int(axis in kernel.workgroup_ids)
    values.update(kernel.descriptor)
    return "\n".join(f"  .amdhsa_{key} {value}" for key, value in values.items())


def _metadata(kernel: Kernel) -> str:
    lines = [
        f"  - .name: {kernel.name}",
        f"    .symbol: {kernel.name}.kd",
        f"    .kernarg_segment_size: {kernel.kernarg_size()}",
        "    .kernarg_segment_align: 8",
        f"    .group_segment_fixed_size: {kernel.lds}",
        f"    .private_segment_fixed_size: {kernel.scratch}",
        "    .wavefront_size: 64",
        f"    .sgpr_count: {kernel.sgprs}",
        f"    .vgpr_count: {kernel.vgprs}",
        f"    .agpr_count: {kernel.agprs}",
        f"    .max_flat_workgroup_size: {kernel.max_threads}",
    ]
    explicit = [
        ("by_value" if size != 8 else "global_buffer", offset, size)
        for offset, size in zip(kernel.offsets(), kernel.arguments, strict=True)
    ]
    if explicit or kernel.hidden:
        lines.append("    .args:")
    for kind, offset, size in [*explicit, *kernel.hidden]:
        lines += [
            f"      - .offset: {offset}",
            f"        .size: {size}",
            f"        .value_kind: {kind}",
        ]
    return "\n".join(lines)


def _listing(kernel: Kernel) -> str:
    return f"""
.text
.globl {kernel.name}
.p2align 8
.type {kernel.name},@function
{kernel.name}:
{kernel.body}
.size {kernel.name}, .-{kernel.name}
.section .rodata
.p2align 6
.amdhsa_kernel {kernel.name}
{_directives(kernel)}
.end_amdhsa_kernel
"""


def source(kernels: Sequence[Kernel], target: str, extra: str = "") -> str:
    """Returns the assembly source of a code object."""
    metadata = "\n".join(_metadata(kernel) for kernel in kernels)
    return f"""{"".join(_listing(kernel) for kernel in kernels)}
{extra}
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{target}
amdhsa.kernels:
{metadata}
...
.end_amdgpu_metadata
"""


@functools.cache
def _zig() -> str:
    """Returns the path of the zig program inside the package ziglang."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the package ziglang is not installed: pip install ziglang")
    return str(Path(spec.submodule_search_locations[0]) / "zig")


@functools.cache
def assemble_source(text: str, target: str) -> bytes:
    """Assembles and links a whole source file; returns the code object."""
    return _build(text, target, ["-x", "assembler"])


@functools.cache
def compile_source(text: str, target: str) -> bytes:
    """Compiles a file of freestanding C++ to a code object."""
    flags = ["-std=c++20", "-O2", "-ffreestanding", "-nostdinc", "-nostdinc++"]
    return _build(text, target, ["-x", "c++", *flags, "-ffp-contract=off"])


def _build(text: str, target: str, flags: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "kernel.in"
        listing.write_text(text)
        objects, code = listing.with_suffix(".o"), listing.with_suffix(".co")
        triple = ["--target=amdgcn-amd-amdhsa", f"-mcpu={target}"]
        commands = [
            [_zig(), "clang", *triple, *flags, "-c", listing, "-o", objects],
            [_zig(), "ld.lld", "-shared", objects, "-o", code],
        ]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{command} failed:\n{done.stderr}\n{text}")
        return code.read_bytes()


def assemble(
    kernels: Kernel | Sequence[Kernel], target: str = "gfx950", extra: str = ""
) -> bytes:
    """Assembles kernels for ``target``; ``extra`` is added as it is (data sections)."""
    if isinstance(kernels, Kernel):
        kernels = [kernels]
    return assemble_source(source(kernels, target, extra), target)
