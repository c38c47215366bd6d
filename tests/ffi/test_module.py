"""The extension module: its functions, and the stub that describes them."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from nanobind.stubgen import StubGen

import jax_hipkittens
from jax_hipkittens import _ffi, _hk

ISA_VARIABLE = "JAX_HIPKITTENS_HOST_ISA"


def test_stub_matches_reference():
    generator = StubGen(_hk)
    generator.put(_hk)
    reference = Path(jax_hipkittens.__file__).with_name("_hk.pyi")
    # Compared as syntax trees: the reference is formatted like the rest of the code.
    generated = ast.dump(ast.parse(generator.get()), indent=1)
    assert generated == ast.dump(ast.parse(reference.read_text("utf-8")), indent=1)


def test_handlers_are_all_named_after_the_package():
    assert sorted(_hk.handlers()) == [
        "jax_hipkittens_attention_backward",
        "jax_hipkittens_attention_forward",
        "jax_hipkittens_gemm",
        "jax_hipkittens_norm_backward",
        "jax_hipkittens_norm_forward",
        "jax_hipkittens_rotary",
    ]


def test_handlers_are_capsules():
    for handler in _hk.handlers().values():
        assert type(handler).__name__ == "PyCapsule"


def test_built_on_the_oldest_supported_ffi_version():
    # jaxlib 0.9.1 has XLA FFI 0.3; a newer header would shut older jaxlibs out.
    assert _hk.ffi_api_version() == (0, 3)


def test_best_instruction_set_by_default(monkeypatch):
    for unset in (None, ""):
        monkeypatch.delenv(ISA_VARIABLE, raising=False)
        if unset is not None:
            monkeypatch.setenv(ISA_VARIABLE, unset)
        assert _hk.host_isa() == _hk.host_isas()[0]
    assert _hk.host_isas()[-1] == "plain"


@pytest.mark.parametrize("isa", _hk.host_isas())
def test_environment_names_the_instruction_set(monkeypatch, isa):
    monkeypatch.setenv(ISA_VARIABLE, isa)
    assert _hk.host_isa() == isa


def test_unknown_instruction_set_names_the_choices(monkeypatch):
    monkeypatch.setenv(ISA_VARIABLE, "sse9")
    with pytest.raises(ValueError, match=r"expected one of .*plain.*, received 'sse9'"):
        _hk.host_isa()


def test_instruction_set_that_turns_unknown_fails_the_call(monkeypatch):
    x = jax.numpy.ones((1, 1, 1, 2))
    table = jax.numpy.ones((1, 1, 1))
    offsets = jax.numpy.zeros(1, jax.numpy.int32)
    _ffi.require()
    call = jax.ffi.ffi_call("jax_hipkittens_rotary", jax.typeof(x))
    monkeypatch.setenv(ISA_VARIABLE, "sse9")
    with pytest.raises(jax.errors.JaxRuntimeError, match="received 'sse9'"):
        jax.block_until_ready(call(x, table, table, offsets, interleaved=0, inverse=0))


def test_importing_the_extension_alone_needs_no_jax():
    # The package imports JAX, so the extension is loaded by its path.
    code = (
        "import importlib.util as u, sys\n"
        "spec = u.spec_from_file_location('_hk', sys.argv[1])\n"
        "spec.loader.exec_module(u.module_from_spec(spec))\n"
        "assert 'jax' not in sys.modules and 'jaxlib' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, _hk.__file__], check=True, env=os.environ
    )
