"""The build of device code: its report, its limits, and its choice of a compiler."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "cmake" / "device_compile.py"


def load_script():
    spec = importlib.util.spec_from_file_location("device_compile", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


device_compile = load_script()

ASSEMBLY = """
kernel:                                 ; @kernel
\ts_load_dwordx2 s[0:1], s[0:1], 0x0
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
\tv_add_u32_e32 v0, 1, v0               ; a comment
\tv_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], v[0:3]
\ts_cbranch_scc1 .LBB0_1
.LBB0_2:
\tv_readfirstlane_b32 s4, v0
\ts_cbranch_execnz .LBB0_2
\ts_cbranch_scc0 .LBB0_3
.LBB0_3:
\ts_endpgm
.Lfunc_end0:
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     4
    .args:
      - .offset:         0
        .size:           8
        .value_kind:     by_value
    .group_segment_fixed_size: 65536
    .kernarg_segment_size: 8
    .max_flat_workgroup_size: 256
    .name:           kernel
    .private_segment_fixed_size: 0
    .sgpr_count:     14
    .sgpr_spill_count: 0
    .symbol:         kernel.kd
    .vgpr_count:     132
    .vgpr_spill_count: 0
...
\t.end_amdgpu_metadata
"""


def test_the_report_has_what_a_kernel_uses():
    report = device_compile.make_report(ASSEMBLY, "gfx950", "clang version 22.1.8")
    assert report["compiler"] == "clang version 22.1.8"
    assert report["kernels"]["kernel"] == {
        "vgpr": 128,
        "agpr": 4,
        "sgpr": 14,
        "lds_bytes": 65536,
        "scratch_bytes": 0,
        "vgpr_spills": 0,
        "sgpr_spills": 0,
        "threads": 256,
        "argument_bytes": 8,
        "waves_per_simd": 2,
        "waterfall_loops": 1,
    }


@pytest.mark.parametrize(
    "line, spilled",
    [
        (".private_segment_fixed_size: 0", ".private_segment_fixed_size: 16"),
        (".vgpr_spill_count: 0", ".vgpr_spill_count: 3"),
        (".sgpr_spill_count: 0", ".sgpr_spill_count: 2"),
    ],
)
def test_a_spill_stops_the_build(line, spilled):
    assert line in ASSEMBLY
    with pytest.raises(SystemExit, match="kernel for gfx950: expected no spills"):
        device_compile.make_report(ASSEMBLY.replace(line, spilled), "gfx950", "")


def test_no_kernel_is_allowed_to_spill():
    assert device_compile.ALLOWED_TO_SPILL == frozenset()


def test_the_hot_loop_is_the_one_that_multiplies():
    loop = device_compile.hot_loop(device_compile.bodies_of(ASSEMBLY)["kernel"])
    assert [line.split()[0] for line in loop] == [
        ".LBB0_1:",
        "v_add_u32_e32",
        "v_mfma_f32_16x16x32_bf16",
        "s_cbranch_scc1",
    ]


@pytest.mark.parametrize(
    "vgprs, lds, threads, waves",
    [(256, 0, 512, 2), (230, 131072, 512, 2), (60, 65536, 256, 2), (24, 0, 64, 8)],
)
def test_waves_per_simd(vgprs, lds, threads, waves):
    found = device_compile.waves_per_simd(vgprs, lds, threads, 160 * 1024)
    assert found == waves


def test_a_chosen_compiler_that_is_none_is_refused():
    with pytest.raises(SystemExit, match="HK_HIP_CLANG: expected a clang.* received"):
        device_compile.find_compiler("no-such-clang")


def test_without_a_compiler_the_build_says_what_it_takes(monkeypatch):
    monkeypatch.setattr(device_compile.shutil, "which", lambda name: None)
    monkeypatch.setattr(device_compile, "zig_compiler", lambda: None)
    with pytest.raises(SystemExit, match="expected HK_HIP_CLANG.*pip install ziglang"):
        device_compile.find_compiler("")


def test_a_kernel_compiles_with_what_is_installed(tmp_path):
    try:
        device_compile.find_compiler("")
    except SystemExit as missing:
        pytest.skip(str(missing))
    source, output = tmp_path / "copy.cc", tmp_path / "copy.gfx942.co"
    source.write_text(
        '#include "hk/arch/cdna/instructions.h"\n'
        'extern "C" [[clang::amdgpu_kernel]] void copy(uint64_t to, uint64_t from) {\n'
        "  const uint32_t at = 4 * hk::thread_index();\n"
        "  hk::store_global(to + at, hk::load_global<uint32_t>(from + at));\n"
        "}\n"
    )
    command = [sys.executable, str(SCRIPT), "--source", str(source)]
    command += ["--target", "gfx942", "--include", str(ROOT / "include")]
    command += ["--output", str(output), "--depfile", str(tmp_path / "copy.d")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert output.read_bytes().startswith(b"\x7fELF")
    assert list(json.loads(output.with_suffix(".json").read_text())["kernels"]) == [
        "copy"
    ]
    assert "arch/cdna/instructions.h" in (tmp_path / "copy.d").read_text()
