"""HIP's entry points as the simulated device answers them."""

import concurrent.futures
import ctypes
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.hipsim import device
from tests.hipsim.assemble import Kernel, assemble
from tests.hipsim.device import (
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    Array,
    HipError,
    Module,
    call,
    launch,
    library,
    options,
)

# out[lane] = a, from arguments (out, a).
STORE = """
  s_load_dwordx2 s[4:5], s[0:1], 0
  s_load_dword s6, s[0:1], 8
  v_lshlrev_b32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
  v_mov_b32 v1, s6
  global_store_dword v0, v1, s[4:5]
  s_endpgm
"""


def store_kernel():
    return Module(assemble(Kernel(STORE, arguments=(8, 4)))).function()


def code(name: str, *arguments) -> int:
    return getattr(library(), name)(*arguments)


def test_devices_and_properties():
    count, current = ctypes.c_int(), ctypes.c_int(-1)
    call("hipInit", 0)
    call("hipGetDeviceCount", ctypes.byref(count))
    assert count.value == 1
    call("hipGetDevice", ctypes.byref(current))
    assert current.value == 0
    assert code("hipSetDevice", 1) == 101
    properties = ctypes.create_string_buffer(1472)
    for arch, lds, units in (("gfx942", 64, 304), ("gfx950", 160, 256)):
        with options(arch=arch):
            call("hipGetDevicePropertiesR0600", properties, 0)
            raw = properties.raw
            assert raw[1160:].startswith(arch.encode() + b":sramecc+:xnack-\0")
            assert int.from_bytes(raw[296:304], "little") == lds << 10
            assert int.from_bytes(raw[308:312], "little") == 64
            assert int.from_bytes(raw[388:392], "little") == units
            value = ctypes.c_int()
            for attribute, want in ((63, units), (87, 64), (74, lds << 10), (10018, 8)):
                call("hipDeviceGetAttribute", ctypes.byref(value), attribute, 0)
                assert value.value == want
    assert code("hipDeviceGetAttribute", ctypes.byref(value), 12345, 0) == 1


def test_several_devices_and_none():
    count = ctypes.c_int()
    with options(devices=3):
        call("hipGetDeviceCount", ctypes.byref(count))
        assert count.value == 3
        call("hipSetDevice", 2)
        stream, where = ctypes.c_void_p(), ctypes.c_int()
        call("hipStreamCreate", ctypes.byref(stream))
        call("hipStreamGetDevice", stream, ctypes.byref(where))
        assert where.value == 2
        call("hipStreamDestroy", stream)
        call("hipSetDevice", 0)
    with options(devices=0):
        assert code("hipGetDeviceCount", ctypes.byref(count)) == 100
        pointer = ctypes.c_void_p()
        assert code("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(8)) == 100
        assert library().hipGetErrorString(100) == b"no ROCm-capable device is detected"


def test_names_and_versions():
    name = ctypes.create_string_buffer(64)
    call("hipDeviceGetName", name, 64, 0)
    assert name.value == b"AMD Instinct MI355X (simulated)"
    version = ctypes.c_int()
    for function in ("hipRuntimeGetVersion", "hipDriverGetVersion"):
        call(function, ctypes.byref(version))
        assert version.value // 10_000_000 == 7


def test_error_texts():
    assert library().hipGetErrorName(719) == b"hipErrorLaunchFailure"
    assert library().hipGetErrorString(1) == b"invalid argument"
    text = ctypes.c_char_p()
    assert code("hipDrvGetErrorString", 209, ctypes.byref(text)) == 0
    assert text.value == b"no kernel image is available for execution on the device"
    assert code("hipDrvGetErrorString", 77777, ctypes.byref(text)) == 1


def test_the_last_error_stays_until_it_is_asked_for():
    code("hipGetLastError")
    assert code("hipSetDevice", 99) == 101
    call("hipDeviceSynchronize")  # A success changes nothing.
    assert code("hipPeekAtLastError") == 101
    assert code("hipGetLastError") == 101
    assert code("hipGetLastError") == 0


def test_memory_is_copied_and_filled():
    values = np.arange(1000, dtype=np.int32)
    a, b = Array.of(values), Array(1000, np.int32)
    size = ctypes.c_size_t(a.bytes)
    to, source = ctypes.c_void_p(b.address), ctypes.c_void_p(a.address)
    call("hipMemcpyAsync", to, source, size, DEVICE_TO_DEVICE, None)
    np.testing.assert_array_equal(b.get(), values)
    call("hipMemsetAsync", to, 0x11, ctypes.c_size_t(8), None)
    np.testing.assert_array_equal(b.get()[:3], [0x11111111, 0x11111111, 2])
    call("hipMemsetD32", to, 7, ctypes.c_size_t(3))
    np.testing.assert_array_equal(b.get()[:4], [7, 7, 7, 3])
    too_many = ctypes.c_size_t(a.bytes + 1)
    assert code("hipMemcpy", to, source, too_many, DEVICE_TO_DEVICE) == 1
    assert code("hipMemcpy", to, source, size, 99) == 21
    host = np.zeros(4, np.int32)
    ordinary = ctypes.c_void_p(host.ctypes.data)
    assert code("hipMemset", ordinary, 0, ctypes.c_size_t(4)) == 1
    assert (
        code("hipMemcpy", ordinary, ordinary, ctypes.c_size_t(4), HOST_TO_DEVICE) == 1
    )


def test_two_dimensional_copies():
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    a = Array.of(values)
    part = np.zeros((3, 2), np.int32)
    pitch, width, height = ctypes.c_size_t(16), ctypes.c_size_t(8), ctypes.c_size_t(3)
    source = ctypes.c_void_p(a.address + 4)
    to = ctypes.c_void_p(part.ctypes.data)
    call("hipMemcpy2D", to, width, source, pitch, width, height, DEVICE_TO_HOST)
    np.testing.assert_array_equal(part, values[:, 1:3])


def test_freed_memory_and_attributes():
    array = Array(4, np.int32)
    # struct {type, device, device pointer, host pointer, managed, flags}
    attributes = (ctypes.c_uint32 * 8)()
    inside = ctypes.c_void_p(array.address + 4)
    call("hipPointerGetAttributes", attributes, inside)
    assert attributes[0] == 2 and attributes[1] == 0
    assert attributes[2] | attributes[3] << 32 == array.address + 4
    address = ctypes.c_void_p(array.address)
    assert code("hipFree", inside) == 1
    array.free()
    assert code("hipFree", address) == 1
    call("hipPointerGetAttributes", attributes, inside)
    assert attributes[0] == 0
    call("hipFree", None)


def test_memory_information():
    free, total, less = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
    call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    array = Array(1 << 20, np.uint8)
    call("hipMemGetInfo", ctypes.byref(less), ctypes.byref(total))
    assert free.value - less.value == 1 << 20
    assert total.value == 288 << 30
    array.free()
    pointer = ctypes.c_void_p()
    too_much = ctypes.c_size_t((288 << 30) + 1)
    assert code("hipMalloc", ctypes.byref(pointer), too_much) == 2


def test_streams_and_events():
    stream = ctypes.c_void_p()
    start, stop = ctypes.c_void_p(), ctypes.c_void_p()
    call("hipStreamCreateWithFlags", ctypes.byref(stream), 1)
    call("hipEventCreate", ctypes.byref(start))
    call("hipEventCreateWithFlags", ctypes.byref(stop), 0)
    elapsed = ctypes.c_float()
    arguments = ctypes.byref(elapsed), start, stop
    assert code("hipEventElapsedTime", *arguments) == 400
    call("hipEventRecord", start, stream)
    call("hipStreamWaitEvent", stream, start, 0)
    call("hipEventRecord", stop, stream)
    call("hipEventSynchronize", stop)
    call("hipEventElapsedTime", *arguments)
    assert elapsed.value >= 0
    call("hipStreamQuery", stream)
    call("hipStreamSynchronize", stream)
    capturing = ctypes.c_uint32(7)
    call("hipStreamIsCapturing", stream, ctypes.byref(capturing))
    assert capturing.value == 0
    call("hipEventDestroy", start)
    assert code("hipEventRecord", start, stream) == 400
    call("hipStreamDestroy", stream)
    assert code("hipStreamSynchronize", stream) == 709


def test_both_argument_forms():
    function = store_kernel()
    out = Array(64, np.uint32)
    launch(function, [out, np.uint32(5)])
    assert (out.get() == 5).all()
    packed = np.zeros(12, np.uint8)
    packed[:8] = np.array([out.address], np.uint64).view(np.uint8)
    packed[8:] = np.array([6], np.uint32).view(np.uint8)
    size = ctypes.c_size_t(12)
    extra = (ctypes.c_void_p * 5)(1, packed.ctypes.data, 2, ctypes.addressof(size), 3)
    call("hipModuleLaunchKernel", function, 1, 1, 1, 64, 1, 1, 0, None, None, extra)
    assert (out.get() == 6).all()


def test_launches_that_cannot_be():
    function, out = store_kernel(), Array(64, np.uint32)
    with pytest.raises(HipError) as error:
        launch(function, [out, np.uint32(0)], grid=0)
    assert error.value.code == 9
    with pytest.raises(HipError) as error:
        launch(function, [out, np.uint32(0)], block=1025)
    assert error.value.code == 9
    with pytest.raises(HipError) as error:
        launch(function, [out, np.uint32(0)], lds=(160 << 10) + 1)
    assert error.value.code == 1
    with pytest.raises(HipError) as error:
        launch(ctypes.c_void_p(0x1234), [out, np.uint32(0)])
    assert error.value.code == 400


def test_functions_and_their_attributes():
    kernel = Kernel(STORE, arguments=(8, 4), lds=1024, vgprs=40, max_threads=256)
    module = Module(assemble(kernel))
    function, value = module.function(), ctypes.c_int()
    for attribute, want in ((0, 256), (1, 1024), (3, 0), (4, 40)):
        call("hipFuncGetAttribute", ctypes.byref(value), attribute, function)
        assert value.value == want
    call("hipFuncSetAttribute", function, 8, 150_000)
    call("hipFuncGetAttribute", ctypes.byref(value), 8, function)
    assert value.value == 150_000
    assert code("hipFuncSetAttribute", function, 8, 163_840) == 1
    missing = ctypes.c_void_p()
    name = b"no such kernel"
    assert (
        code("hipModuleGetFunction", ctypes.byref(missing), module.handle, name) == 500
    )
    with pytest.raises(HipError) as error:
        launch(function, [Array(64, np.uint32), np.uint32(0)], block=257)
    assert error.value.code == 9
    module.unload()
    with pytest.raises(HipError) as error:
        launch(function, [Array(64, np.uint32), np.uint32(0)])
    assert error.value.code == 400


def test_globals_of_modules():
    data = """
      .section .data,"aw",@progbits
      .globl table
      .p2align 4
      .type table,@object
      table:
      .long 11, 22, 33, 44
      .size table, 16
    """
    listing = """
      s_load_dwordx2 s[4:5], s[0:1], 0
      s_getpc_b64 s[6:7]
      s_waitcnt lgkmcnt(0)
      s_endpgm
    """
    module = Module(assemble(Kernel(listing), extra=data))
    pointer, size = ctypes.c_void_p(), ctypes.c_size_t()
    call(
        "hipModuleGetGlobal",
        ctypes.byref(pointer),
        ctypes.byref(size),
        module.handle,
        b"table",
    )
    values = np.zeros(4, np.uint32)
    host = ctypes.c_void_p(values.ctypes.data)
    call("hipMemcpy", host, pointer, size, DEVICE_TO_HOST)
    np.testing.assert_array_equal(values, [11, 22, 33, 44])
    arguments = ctypes.byref(pointer), ctypes.byref(size), module.handle, b"none"
    assert code("hipModuleGetGlobal", *arguments) == 500


@pytest.mark.parametrize("register", ["hipHostRegister", "hipsim_register"])
def test_host_memory_that_was_registered(register):
    function = store_kernel()
    host = np.zeros(64, np.uint32)
    address = ctypes.c_void_p(host.ctypes.data)
    with pytest.raises(HipError, match="outside all buffers"):
        launch(function, [ctypes.c_uint64(host.ctypes.data), np.uint32(3)])
    more = (0,) if register == "hipHostRegister" else ()
    call(register, address, ctypes.c_size_t(host.nbytes), *more)
    launch(function, [ctypes.c_uint64(host.ctypes.data), np.uint32(3)])
    assert (host == 3).all()
    call("hipHostUnregister" if more else "hipsim_unregister", address)
    with pytest.raises(HipError, match="outside all buffers"):
        launch(function, [ctypes.c_uint64(host.ctypes.data), np.uint32(3)])


def test_registered_ranges_count_and_overlap():
    host = np.zeros(64, np.uint32)
    address, part = (ctypes.c_void_p(host.ctypes.data + n) for n in (0, 16))
    size = ctypes.c_size_t(host.nbytes)
    call("hipsim_register", address, size)
    call("hipsim_register", address, size)
    call("hipsim_register", part, ctypes.c_size_t(32))
    call("hipsim_unregister", address)
    launch(store_kernel(), [ctypes.c_uint64(host.ctypes.data), np.uint32(9)])
    assert (host == 9).all()
    call("hipsim_unregister", part)
    call("hipsim_unregister", address)
    assert code("hipsim_unregister", address) == 1


def test_calls_fail_where_that_was_ordered():
    pointer = ctypes.c_void_p()
    arguments = ctypes.byref(pointer), ctypes.c_size_t(64)
    assert code("hipsim_fail", b"hipMalloc", 2, 2) == 0
    assert code("hipMalloc", *arguments) == 0
    call("hipFree", pointer)
    assert code("hipMalloc", *arguments) == 2
    assert code("hipMalloc", *arguments) == 0
    call("hipFree", pointer)
    assert code("hipsim_fail", b"hipModuleLaunchKernel", 1, 719) == 0
    with pytest.raises(HipError) as error:
        launch(store_kernel(), [Array(64, np.uint32), np.uint32(1)])
    assert error.value.code == 719
    assert code("hipsim_fail", b"hipFree", 1, 1) == 0
    assert code("hipsim_fail", None, 0, 0) == 0
    call("hipFree", None)


def test_a_failed_launch_leaves_the_process_and_the_device_usable():
    bad = Module(assemble(Kernel(STORE.replace("2, v0", "4, v0"), arguments=(8, 4))))
    out = Array(64, np.uint32)
    with pytest.raises(HipError) as error:
        launch(bad.function(), [out, np.uint32(1)])
    assert error.value.code == 700
    launch(store_kernel(), [out, np.uint32(2)])
    assert (out.get() == 2).all()


def test_grids_and_blocks():
    """Every work item of a 3-D launch writes its own place."""
    listing = """
      s_load_dwordx2 s[8:9], s[0:1], 0
      v_and_b32 v1, 0x3ff, v0
      v_bfe_u32 v2, v0, 10, 10
      v_bfe_u32 v3, v0, 20, 10
      s_mul_i32 s5, s4, 3
      s_add_i32 s5, s5, s3
      s_mul_i32 s5, s5, 2
      s_add_i32 s5, s5, s2
      s_mul_i32 s5, s5, 105
      v_mul_u32_u24 v3, v3, 7
      v_add_u32 v3, v3, v2
      v_mul_u32_u24 v3, v3, 5
      v_add_u32 v3, v3, v1
      v_add_u32 v3, s5, v3
      v_lshlrev_b32 v3, 2, v3
      s_waitcnt lgkmcnt(0)
      global_store_dword v3, v0, s[8:9]
      s_endpgm
    """
    kernel = Kernel(listing, workgroup_ids="xyz", workitem_ids=2)
    out = Array((4, 3, 2, 3, 7, 5), np.uint32, fill=0xFFFFFFFF)
    launch(Module(assemble(kernel)).function(), [out], grid=(2, 3, 4), block=(5, 7, 3))
    z, y, x = np.meshgrid(range(3), range(7), range(5), indexing="ij")
    want = np.broadcast_to(x | y << 10 | z << 20, out.shape)
    np.testing.assert_array_equal(out.get(), want)


def test_hidden_arguments():
    listing = """
      s_load_dwordx4 s[4:7], s[0:1], 0
      s_load_dwordx4 s[8:11], s[0:1], 16
      s_load_dword s12, s[0:1], 32
      v_lshlrev_b32 v0, 2, v0
      s_waitcnt lgkmcnt(0)
      v_mov_b32 v4, s6
      v_mov_b32 v5, s7
      v_mov_b32 v6, s8
      v_mov_b32 v7, s9
      v_mov_b32 v8, s12
      v_mov_b32 v0, 0
      s_mov_b64 exec, 1
      global_store_dwordx4 v0, v[4:7], s[4:5]
      global_store_dword v0, v8, s[4:5] offset:16
      s_endpgm
    """
    hidden = (
        ("hidden_block_count_x", 8, 4),
        ("hidden_block_count_y", 12, 4),
        ("hidden_block_count_z", 16, 4),
        ("hidden_group_size_x", 20, 2),
        ("hidden_group_size_y", 22, 2),
        ("hidden_group_size_z", 24, 2),
        ("hidden_grid_dims", 28, 2),
        ("hidden_dynamic_lds_size", 32, 4),
    )
    kernel = Kernel(listing, hidden=hidden)
    out = Array(5, np.uint32, fill=0)
    function = Module(assemble(kernel)).function()
    launch(function, [out], grid=(3, 2, 1), block=(64, 2, 1), lds=512)
    np.testing.assert_array_equal(out.get(), [3, 2, 1, 64 | 2 << 16, 512])


def test_the_dispatch_packet():
    listing = """
      s_load_dwordx2 s[6:7], s[2:3], 0
      s_load_dwordx4 s[8:11], s[0:1], 0
      v_mov_b32 v0, 0
      s_waitcnt lgkmcnt(0)
      v_mov_b32 v4, s9
      v_mov_b32 v5, s11
      s_mov_b64 exec, 1
      global_store_dwordx2 v0, v[4:5], s[6:7]
      s_endpgm
    """
    kernel = Kernel(listing, descriptor=(("user_sgpr_dispatch_ptr", 1),))
    out = Array(2, np.uint32, fill=0)
    launch(Module(assemble(kernel)).function(), [out], grid=3, block=(32, 2))
    np.testing.assert_array_equal(out.get(), [32 | 2 << 16, 96])


def test_preloaded_arguments():
    """The prologue of 256 bytes, for firmware that does not preload, is skipped."""
    listing = """
      s_trap 2
      .fill 63, 4, 0xbf800000
      v_mov_b32 v1, s4
      v_lshlrev_b32 v0, 2, v0
      global_store_dword v0, v1, s[2:3]
      s_endpgm
    """
    descriptor = (
        ("user_sgpr_kernarg_preload_length", 3),
        ("user_sgpr_kernarg_preload_offset", 0),
    )
    kernel = Kernel(listing, arguments=(8, 4), descriptor=descriptor)
    out = Array(64, np.uint32)
    launch(Module(assemble(kernel)).function(), [out, np.uint32(77)])
    assert (out.get() == 77).all()


def test_buffers_past_4_gib():
    """A sparse buffer of 9 GiB takes only the pages that are touched."""
    listing = """
      s_load_dwordx4 s[4:7], s[0:1], 0
      v_lshlrev_b32 v0, 2, v0
      s_waitcnt lgkmcnt(0)
      s_add_u32 s4, s4, s6
      s_addc_u32 s5, s5, s7
      v_mov_b32 v1, 1.0
      global_store_dword v0, v1, s[4:5]
      s_endpgm
    """
    function = Module(assemble(Kernel(listing, arguments=(8, 8)))).function()
    out = Array(9 << 30, np.uint8)
    for offset in (0, (4 << 30) - 128, 8 << 30):
        launch(function, [out, np.uint64(offset)])
        part = np.zeros(64, np.float32)
        source = ctypes.c_void_p(out.address + offset)
        host = ctypes.c_void_p(part.ctypes.data)
        call("hipMemcpy", host, source, ctypes.c_size_t(256), DEVICE_TO_HOST)
        assert (part == 1).all()
    with pytest.raises(HipError, match="outside all buffers"):
        launch(function, [out, np.uint64(9 << 30)])


def test_statistics(tmp_path):
    path = tmp_path / "statistics.jsonl"
    device.set_option("statistics", path)
    function, out = store_kernel(), Array(128, np.uint32)
    launch(function, [out, np.uint32(1)], block=128)
    device.set_option("statistics", "")
    launch(function, [out, np.uint32(1)])
    lines = path.read_text().splitlines()
    assert len(lines) == 1
    first = json.loads(lines[0])
    assert first["kernel"] == "kernel" and first["block"] == [128, 1, 1]
    assert first["instructions"]["total"] == 14
    assert first["global_bytes_written"] == 512
    assert first["scalar_bytes_read"] == 24
    assert first["valu_passes"] == 4
    assert device.statistics()["instructions"]["total"] == 7


def test_the_environment():
    """The controls' variables are read when the library is loaded."""
    program = """
import ctypes, os
hip = ctypes.CDLL(os.environ["LIBRARY"])
count, pointer = ctypes.c_int(), ctypes.c_void_p()
allocate = lambda: hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(8))
hip.hipGetDeviceCount(ctypes.byref(count))
name = ctypes.create_string_buffer(64)
hip.hipDeviceGetName(name, 64, 0)
print(count.value, name.value.decode(), allocate(), allocate(), allocate())
"""
    environment = {
        **os.environ,
        "LIBRARY": str(device.library_path()),
        "HIPSIM_ARCH": "gfx942",
        "HIPSIM_DEVICES": "2",
        "HIPSIM_FAIL": "hipMalloc:2:2",
        "HIPSIM_CHECKS": "sometimes",
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "2 AMD Instinct MI325X (simulated) 0 2 0"
    assert "HIPSIM_CHECKS=sometimes is not understood" in done.stderr


def test_threads_launch_side_by_side():
    function = store_kernel()
    arrays = [Array(64, np.uint32) for _ in range(4)]

    def work(value: int) -> bool:
        for n in range(20):
            launch(function, [arrays[value], np.uint32(100 * value + n)])
        return bool((arrays[value].get() == 100 * value + 19).all())

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4
