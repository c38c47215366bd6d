"""The decoder and disassembler against LLVM's assembler and tinygrad's tables."""

import ctypes
import functools
import importlib.util
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.hipsim.assemble import _zig, assemble
from tests.hipsim.device import library
from tests.hipsim.test_instructions import CASES, TARGETS, Listings

tinygrad = pytest.mark.skipif(
    importlib.util.find_spec("tinygrad") is None, reason="tinygrad is not installed"
)


def decode(code: bytes, target: str) -> tuple[int, str, str]:
    """Returns size (negative if unknown), name and text of the first instruction."""
    name, text = ctypes.create_string_buffer(64), ctypes.create_string_buffer(512)
    size = library().hipsim_decode(
        code,
        ctypes.c_size_t(len(code)),
        target.encode(),
        name,
        ctypes.c_size_t(64),
        text,
        ctypes.c_size_t(512),
    )
    return size, name.value.decode(), text.value.decode()


def words(*values: int) -> bytes:
    """Little-endian dwords."""
    return struct.pack(f"<{len(values)}I", *values)


class Fields:
    """Random operand fields that every instruction accepts."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def v(self) -> int:
        return int(self.rng.integers(0, 24)) * 8

    def s(self) -> int:
        return int(self.rng.integers(0, 10)) * 4


def candidates(f: Fields):
    """One encoding of every opcode of every format, known or not."""
    for op in range(256):
        yield words(0x17D << 23 | f.s() << 16 | op << 8 | f.s())
        yield words(0x30 << 26 | op << 18 | 1 << 17 | f.s() << 6 | f.s() // 2, 16)
        yield words(0x3F << 25 | f.v() << 17 | op << 9 | 256 + f.v())
        yield words(0x3E << 25 | op << 17 | f.v() << 9 | 256 + f.v())
        yield words(
            0x36 << 26 | op << 17 | 8, f.v() | f.v() << 8 | f.v() << 16 | f.v() << 24
        )
    for op in range(96):
        yield words(2 << 30 | op << 23 | f.s() << 16 | f.s() << 8 | f.s())
    for op in range(128):
        yield words(0x17E << 23 | op << 16 | f.s() << 8 | f.s())
        yield words(0x17F << 23 | op << 16 | 5)
        for segment in range(3):
            low = 0x37 << 26 | op << 18 | segment << 14 | (segment == 1) << 13
            yield words(low | 16, f.v() | f.v() << 8 | 0x7F << 16 | f.v() << 24)
        yield words(
            0x38 << 26 | op << 18 | 1 << 12, f.v() | f.v() << 8 | 4 << 16 | f.s() << 24
        )
        yield words(*packed(op, f))
    for op in range(28):
        yield words(0xB << 28 | op << 23 | f.s() << 16 | 0x801, 0x12345678)
    for op in range(16):
        low = 0x3A << 26 | op << 15 | 1 << 12 | 4 << 19 | 4 << 23
        yield words(low, f.v() | f.v() << 8 | 4 << 16 | f.s() << 24)
    for op in range(62):
        yield words(op << 25 | f.v() << 17 | f.v() << 9 | 256 + f.v(), 0x1234)
    for op in range(896):
        yield words(*vop3(op, f))
    for op in (45, 46):
        scale = 0x1A7 << 23 | 0x2C << 16, 256 + 2 | (256 + 3) << 9
        yield words(*scale, *packed(op, f))


def vop3(op: int, f: Fields) -> tuple[int, int]:
    """VOP3 with the operands that an opcode has: as many as it reads."""
    plain = (
        0x34 << 26 | op << 16 | f.s(),
        (256 + f.v()) | (256 + f.v()) << 9 | (256 + f.v()) << 18,
    )
    return plain


def packed(op: int, f: Fields) -> tuple[int, int]:
    """VOP3P or MAI; D lies apart from C."""
    sources = (256 + f.v() % 64) | (256 + f.v() % 64) << 9 | (256 + 64) << 18
    return 0x1A7 << 23 | op << 16 | 128 | 1 << 14, sources | 3 << 27


def assembled(
    lines: list[str], target: str, folder: Path
) -> tuple[dict[int, str], bytes]:
    """Assembles lines; returns the errors by line, and .text if there are none."""
    source, result = folder / "all.s", folder / "all.o"
    source.write_text("\n".join(lines) + "\n")
    command = [_zig(), "clang", "--target=amdgcn-amd-amdhsa", f"-mcpu={target}"]
    command += [
        "-c",
        "-x",
        "assembler",
        "-ferror-limit=0",
        str(source),
        "-o",
        str(result),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = {
        int(number) - 1: message
        for number, message in re.findall(r"all\.s:(\d+):\d+: error: (.*)", done.stderr)
    }
    return errors, b"" if errors else text_section(result.read_bytes())


def text_section(image: bytes) -> bytes:
    """The executable section of an ELF file."""
    offset, count = (
        struct.unpack_from("<Q", image, 40)[0],
        struct.unpack_from("<H", image, 60)[0],
    )
    sections = [
        struct.unpack_from("<IIQQQQ", image, offset + 64 * i) for i in range(count)
    ]
    parts = [image[s[4] : s[4] + s[5]] for s in sections if s[1] == 1 and s[2] & 4]
    return max(parts, key=len)


# What LLVM's assembler does not write: instructions of other modes, and rows of AMD's
# tables that LLVM does not know.
UNWRITTEN = (
    "s_set_gpr_idx_on s_set_valu_coexec_mode s_atc_probe s_atc_probe_buffer"
    " ds_gws_sema_v ds_gws_sema_p ds_gws_sema_release_all s_set_gpr_idx_idx"
    " v_screen_partition_4se_b32"
    " v_cvt_pkaccum_u8_f32"
).split()


@pytest.mark.parametrize("target", TARGETS)
def test_text_assembles_to_the_same_instruction(target, tmp_path):
    """Disassemble every opcode, assemble the text with LLVM, and decode the result."""
    texts = []
    for code in candidates(Fields(3)):
        size, name, text = decode(code + bytes(16), target)
        if size > 0 and name not in UNWRITTEN:
            texts.append(text)
    errors, _ = assembled(texts, target, tmp_path)
    # Random registers break rules of the assembler (one scalar operand, overlaps);
    # none may be
    # unknown to it.
    rules = ("constant bus", "overlap", "operand", "e64 variant", "immediate", "tied")
    unknown = [
        (texts[line], message)
        for line, message in errors.items()
        if not any(rule in message for rule in rules)
    ]
    assert not unknown
    assert len(errors) < 0.1 * len(texts), [(texts[i], e) for i, e in errors.items()]
    good = [text for line, text in enumerate(texts) if line not in errors]
    _, code = assembled(good, target, tmp_path)
    at = 0
    for text in good:
        size, _, again = decode(code[at : at + 16] + bytes(16), target)
        assert size > 0, text
        assert again == text
        at += size
    assert at == len(code)


@functools.cache
def streams(target: str) -> list[bytes]:
    """Code with all operand forms: the instruction tests' kernels."""
    listings = Listings(target)
    for case in CASES:
        if target in case.targets:
            listings.add(case.listing, case.mode)
    kernels = listings.kernels()
    return [text_section(assemble(kernels, target))]


def instructions(code: bytes, target: str):
    """Decodes a stream; padding between kernels decodes as s_nop or v_cndmask."""
    at = 0
    while at < len(code):
        window = code[at : at + 16] + bytes(16)
        size, name, text = decode(window, target)
        yield window[:16], size, name, text
        at += abs(size)


NAMES = {
    "v_accvgpr_read_b32": "v_accvgpr_read",
    "v_accvgpr_write_b32": "v_accvgpr_write",
}
NAMES |= {"v_fma_mix_f32": "v_mad_mix_f32", "v_fma_mixlo_f16": "v_mad_mixlo_f16"}
NAMES |= {"v_fma_mixhi_f16": "v_mad_mixhi_f16"}


@tinygrad
@pytest.mark.parametrize("target", TARGETS)
def test_agrees_with_tinygrad(target):
    """Names and sizes of every instruction of the streams and of every opcode."""
    from tinygrad.renderer.amd import decode_inst

    checked = 0
    every = [(c + bytes(16))[:16] for c in candidates(Fields(4))]
    lone = [(c, *decode(c + bytes(16), target)) for c in every]
    found = [row for code in streams(target) for row in instructions(code, target)]
    for window, size, name, _ in [*found, *lone]:
        if size < 0:
            continue
        try:
            other = decode_inst(window, "cdna")
        except ValueError:  # a combination its tables do not list
            continue
        theirs = re.sub(r"_e(32|64)$", "", other.op.name.lower())
        assert NAMES.get(name, name) == theirs, window.hex()
        if "lit" not in type(other).__name__.lower() and 255 not in literal_fields(
            window
        ):
            assert size == other.size(), (window.hex(), name)
        checked += 1
    assert checked > 2000


def literal_fields(window: bytes) -> set[int]:
    """Source fields of a scalar or short vector instruction."""
    word = struct.unpack_from("<I", window)[0]
    return {word & 0xFF, word >> 8 & 0xFF, word & 0x1FF}


@pytest.mark.parametrize("target", TARGETS)
def test_streams_have_no_unknown_instruction(target):
    """And the code objects are decoded to their ends."""
    for code in streams(target):
        unknown = [text for _, size, _, text in instructions(code, target) if size < 0]
        assert not unknown


def test_chips_differ():
    """gfx950 dropped xf32 and added transposing reads."""
    transpose = words(0x36 << 26 | 227 << 17, 0)
    xf32 = words(0x1A7 << 23 | 62 << 16, 256 | 256 << 9 | 256 << 18)
    assert decode(transpose, "gfx950")[0] == 8
    assert decode(transpose, "gfx942")[0] == -8
    assert decode(xf32, "gfx942")[0] == 8
    assert decode(xf32, "gfx950")[0] == -8


def test_truncated_code_is_unknown():
    """A literal past the end of the code is not read."""
    assert decode(words(0xBE8000FF), "gfx950")[0] < 0
