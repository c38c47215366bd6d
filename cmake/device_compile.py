"""Compiles a file of kernels for an AMD GPU to a code object, with a report beside it.

Output: gemm.gfx950.co, the code object; .json, its kernels' use of registers and
memory; .loops, the assembly of their hot loops, for jax_hipkittens/bench/static.py.

Needs neither ROCm nor a C++ library: the source is freestanding. Steps: C++ to
assembly, which stays in the build folder for whoever wants to read it, assembly to
object, object to code object.

The compiler is the first of: HK_HIP_CLANG (a path), ROCm's amdclang++, a clang++ of
version 20 or newer that knows AMD GPUs, and the clang inside the PyPI package ziglang.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Kernels that may spill registers or use scratch memory. None may.
ALLOWED_TO_SPILL: frozenset[str] = frozenset()

OLDEST_CLANG = 20
FLAGS = [
    "-std=c++20",
    # The form of code objects that every ROCm from 5.5 on loads.
    "-mcode-object-version=5",
    "-O3",
    "-ffreestanding",
    "-nostdinc",
    "-nostdinc++",
    "-fno-exceptions",
    "-fno-rtti",
    # Multiply-adds are fused where the source says so, as on the host.
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    # load_to_local says that it writes m0, a register that clang reserves for itself.
    "-Wno-inline-asm",
]


@dataclasses.dataclass(frozen=True)
class Compiler:
    """How to call a clang and its linker."""

    clang: tuple[str, ...]
    linker: tuple[str, ...]

    def version(self) -> str:
        """The first line that --version prints."""
        return run([*self.clang, "--version"]).splitlines()[0]


def run(command: list[str]) -> str:
    """Runs a command; one that fails ends the program with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if done.stderr:
        sys.stderr.write(done.stderr)
    return done.stdout


def with_linker(clang: str) -> Compiler | None:
    """The clang with the ld.lld that it would call, if it has one."""
    asked = [clang, "-print-prog-name=ld.lld"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    linker = shutil.which(found.stdout.strip() or "ld.lld")
    return Compiler((clang,), (linker,)) if linker else None


def clang_version(clang: str) -> int:
    """The major version, 0 if it does not run."""
    asked = [clang, "-dumpversion"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:
        return 0
    digits = found.stdout.split(".")[0].strip()
    return int(digits) if digits.isdigit() else 0


def knows_amd_gpus(clang: str) -> bool:
    """Whether the clang was built with the AMDGPU backend."""
    asked = [clang, "-print-targets"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return "amdgcn" in found.stdout


def rocm_clangs() -> Iterator[str]:
    """Where ROCm's compiler may lie."""
    root = os.environ.get("ROCM_PATH", "/opt/rocm")
    yield from ("amdclang++", f"{root}/bin/amdclang++", f"{root}/llvm/bin/clang++")


def system_clangs() -> Iterator[str]:
    """A clang++ by its plain name and by those of versions."""
    yield "clang++"
    yield from (f"clang++-{version}" for version in range(40, OLDEST_CLANG - 1, -1))


def zig_compiler() -> Compiler | None:
    """The clang and the lld inside the ziglang package, if it is installed."""
    asked = [sys.executable, "-m", "ziglang", "version"]
    if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
        return None
    zig = (sys.executable, "-m", "ziglang")
    return Compiler((*zig, "clang"), (*zig, "ld.lld"))


def find_compiler(chosen: str) -> Compiler:
    """The compiler of choice, or the first that serves."""
    if chosen:
        path = shutil.which(chosen)
        compiler = with_linker(path) if path else None
        if compiler is None:
            raise SystemExit(
                "HK_HIP_CLANG: expected a clang++ that has ld.lld, received "
                f"{chosen!r}; unset it to let the build find a compiler."
            )
        return compiler
    for name in (*rocm_clangs(), *system_clangs()):
        path = shutil.which(name)
        if not path or clang_version(path) < OLDEST_CLANG or not knows_amd_gpus(path):
            continue
        if compiler := with_linker(path):
            return compiler
    if compiler := zig_compiler():
        return compiler
    raise SystemExit(
        "no compiler for AMD GPUs: expected HK_HIP_CLANG, ROCm's amdclang++, a clang++ "
        f"of version {OLDEST_CLANG} or newer with ld.lld, or the package ziglang; "
        f"install one by: {sys.executable} -m pip install ziglang"
    )


def kernels_of(assembly: str) -> list[dict[str, str]]:
    """The kernels' entries in the metadata at the end of an assembly file."""
    match = re.search(r"\.amdgpu_metadata\n(.*?)\.end_amdgpu_metadata", assembly, re.S)
    if match is None:
        raise SystemExit("expected the assembly to end with .amdgpu_metadata")
    kernels: list[dict[str, str]] = []
    for line in match[1].splitlines():
        entry = re.match(r"(  - |    )(\.\w+):\s*(\S*)$", line)
        if entry is None:
            continue
        if entry[1] == "  - ":
            kernels.append({})
        kernels[-1][entry[2]] = entry[3]
    return kernels


def bodies_of(assembly: str) -> dict[str, list[str]]:
    """The instructions and labels of each function of an assembly file."""
    bodies: dict[str, list[str]] = {}
    body: list[str] | None = None
    for raw in assembly.splitlines():
        line = raw.split(";")[0].rstrip()
        if start := re.match(r"(\w+):$", line):
            body = bodies.setdefault(start[1], [])
        elif line.startswith(".Lfunc_end"):
            body = None
        elif body is not None and re.match(r"\t[a-z]|\.L\w+:$", line):
            body.append(line)
    return bodies


def loops_of(body: list[str]) -> list[list[str]]:
    """What lies between a label and each branch back to it, ends included."""
    labels = {line[:-1]: i for i, line in enumerate(body) if line.endswith(":")}
    loops = []
    for i, line in enumerate(body):
        branch = re.match(r"\ts_c?branch\w*\s+(\.L\w+)$", line)
        if branch and labels.get(branch[1], i) < i:
            loops.append(body[labels[branch[1]] : i + 1])
    return loops


def hot_loop(body: list[str]) -> list[str]:
    """The loop with the most matrix instructions; of equals, the shortest."""
    loops = loops_of(body)
    if not loops:
        return []
    return max(loops, key=lambda x: (sum("v_mfma" in line for line in x), -len(x)))


def waterfalls(body: list[str]) -> int:
    """Loops over lanes that differ in what an instruction needs to be uniform."""
    return sum(
        any("v_readfirstlane" in line for line in loop) and "execnz" in loop[-1]
        for loop in loops_of(body)
    )


def waves_per_simd(vgprs: int, lds: int, threads: int, lds_of_unit: int) -> int:
    """How many waves of a kernel a SIMD holds: as its registers and the LDS allow.

    A SIMD has 512 registers for each lane, given out by 8, and at most 8 waves; a
    compute unit has 4 SIMDs.
    """
    by_registers = min(8, 512 // max(8, -(-vgprs // 8) * 8))
    if lds == 0:
        return by_registers
    by_lds = (lds_of_unit // lds) * (threads // 64) // 4
    return min(by_registers, by_lds)


def describe(kernel: dict[str, str], target: str) -> dict[str, int]:
    """What the report says of a kernel. vgpr counts arch and accumulation registers."""
    number = {key: int(value) for key, value in kernel.items() if value.isdigit()}
    agpr = number[".agpr_count"]
    total = number[".vgpr_count"]
    lds = number[".group_segment_fixed_size"]
    threads = number[".max_flat_workgroup_size"]
    lds_of_unit = 160 * 1024 if target == "gfx950" else 64 * 1024
    return {
        "vgpr": total - agpr,
        "agpr": agpr,
        "sgpr": number[".sgpr_count"],
        "lds_bytes": lds,
        "scratch_bytes": number[".private_segment_fixed_size"],
        "vgpr_spills": number[".vgpr_spill_count"],
        "sgpr_spills": number[".sgpr_spill_count"],
        "threads": threads,
        "argument_bytes": number[".kernarg_segment_size"],
        "waves_per_simd": waves_per_simd(total, lds, threads, lds_of_unit),
    }


def make_report(assembly: str, target: str, version: str) -> dict[str, object]:
    """The report of a code object; a kernel that spills ends the program."""
    kernels = {k[".name"]: describe(k, target) for k in kernels_of(assembly)}
    bodies = bodies_of(assembly)
    for name in kernels:
        kernels[name]["waterfall_loops"] = waterfalls(bodies[name])
    for name, facts in kernels.items():
        wasted = {
            key: facts[key]
            for key in ("scratch_bytes", "vgpr_spills", "sgpr_spills")
            if facts[key]
        }
        if wasted and name not in ALLOWED_TO_SPILL:
            raise SystemExit(
                f"{name} for {target}: expected no spills and no scratch, received "
                f"{wasted}; give it fewer live values, or fewer waves per SIMD."
            )
    return {"target": target, "compiler": version, "kernels": kernels}


def hot_loops(assembly: str) -> str:
    """Each kernel's hot loop, under a line with its name."""
    bodies = bodies_of(assembly)
    names = [kernel[".name"] for kernel in kernels_of(assembly)]
    return "".join(
        f"{name}:\n" + "".join(f"{line}\n" for line in hot_loop(bodies[name]))
        for name in names
    )


def main() -> None:
    """Compiles what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", choices=["gfx942", "gfx950"], required=True)
    parser.add_argument(
        "--include", type=Path, required=True, help="the folder include/"
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="the code object, *.co"
    )
    parser.add_argument("--depfile", type=Path)
    parser.add_argument("--compiler", default="", help="HK_HIP_CLANG")
    parser.add_argument("--werror", action="store_true", help="stop at a warning")
    arguments = parser.parse_args()

    compiler = find_compiler(arguments.compiler)
    output: Path = arguments.output
    output.parent.mkdir(parents=True, exist_ok=True)
    assembly, binary = output.with_suffix(".s"), output.with_suffix(".o")
    machine = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={arguments.target}"]
    include: Path = arguments.include
    freestanding = include / "hk/arch/cdna/freestanding"
    compile_command = [*compiler.clang, "-x", "c++", *machine, *FLAGS]
    compile_command += ["-I", str(include), "-isystem", str(freestanding)]
    if arguments.werror:
        compile_command.append("-Werror")
    if arguments.depfile:
        compile_command += ["-MD", "-MT", str(output), "-MF", str(arguments.depfile)]
    run([*compile_command, "-S", str(arguments.source), "-o", str(assembly)])
    text = assembly.read_text()
    report = make_report(text, arguments.target, compiler.version())
    run(
        [
            *compiler.clang,
            *machine,
            "-x",
            "assembler",
            "-c",
            str(assembly),
            "-o",
            str(binary),
        ]
    )
    run([*compiler.linker, "-shared", str(binary), "-o", str(output)])
    output.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    output.with_suffix(".loops").write_text(hot_loops(text))


if __name__ == "__main__":
    main()
