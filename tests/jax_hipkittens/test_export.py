"""Programs with HK kernels made ahead of time: exported, compiled, cached."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jax_hipkittens as hk
from jax_hipkittens import _dispatch, _export, _ffi
from tests.jax_hipkittens.test_ffi import in_process

CALLS = re.compile(r"custom_call @(jax_hipkittens_\w+)")
ALL_TARGETS = {f"jax_hipkittens_{target}" for target in _export.TARGETS}


def block(x, weight, implementation=None):
    """Every op once."""
    named = {"implementation": implementation}
    normed = hk.rms_norm(x, weight[0], **named)
    q = hk.rotary(normed, *hk.rotary_tables(5, 4), **named)
    out = hk.attention(q, q, normed, **named)
    return hk.matmul(out, weight, activation="silu", **named)


def operands():
    rng = np.random.default_rng(0)
    shapes = (2, 5, 2, 4), (4, 4)
    return [jnp.asarray(rng.standard_normal(s), jnp.float32) for s in shapes]


def step(x, weight):
    def total(x, weight):
        return jnp.sum(jnp.sin(block(x, weight)))

    return jax.value_and_grad(total, argnums=(0, 1))(x, weight)


def exported(function, *platforms):
    return export.export(
        jax.jit(function), platforms=platforms, disabled_checks=hk.EXPORT_CHECKS
    )(*operands())


def test_the_checks_name_every_target():
    assert set(_ffi.require().handlers()) == ALL_TARGETS


NO_KERNEL = {
    "rocm": "attention_forward: HK has no kernel for GPUs, so it falls back to XLA",
    "cuda": "attention_forward: HK has no kernel for the platform of this program, so",
}


@pytest.mark.parametrize("platform", ["cpu", "rocm", "cuda"])
def test_a_platform_without_kernels_gets_xla_and_a_warning(platform, caplog):
    _dispatch._said.clear()
    found = set(CALLS.findall(exported(step, platform).mlir_module()))
    served = {"cpu": ALL_TARGETS, "rocm": {"jax_hipkittens_gemm"}, "cuda": set()}
    assert found == served[platform]
    warnings = [record.getMessage() for record in caplog.records]
    for other, said in NO_KERNEL.items():
        assert any(said in each for each in warnings) == (platform == other)


def test_sizes_left_open_go_to_xla_on_gpus(caplog):
    _dispatch._said.clear()
    open_size = export.symbolic_shape("m, 40")
    program = export.export(
        jax.jit(hk.matmul), platforms=["rocm"], disabled_checks=hk.EXPORT_CHECKS
    )(jax.ShapeDtypeStruct(open_size, jnp.bfloat16), jnp.ones((40, 20), jnp.bfloat16))
    assert not CALLS.findall(program.mlir_module())
    assert "take sizes that are known when a program is made" in caplog.text


@pytest.mark.parametrize("platform", ["cpu", "rocm", "cuda"])
def test_products_are_kernels_on_amd_gpus(platform):
    """Forward and both gradients, in the dtypes that they serve."""

    def product(a, b):
        return jax.vjp(hk.matmul, a, b)[1](hk.matmul(a, b))

    a, b = (x.astype(jnp.bfloat16) for x in (jnp.ones((5, 6)), jnp.ones((6, 7))))
    program = export.export(
        jax.jit(product), platforms=[platform], disabled_checks=hk.EXPORT_CHECKS
    )(a, b)
    calls = CALLS.findall(program.mlir_module())
    assert len(calls) == (0 if platform == "cuda" else 3)


def test_only_hk_raises_where_it_has_no_kernel():
    with pytest.raises(NotImplementedError) as error:
        exported(lambda x, weight: block(x, weight, "hk"), "rocm")
    assert str(error.value).startswith(
        "norm_forward: HK has no kernel for GPUs; implementation=None falls"
    )
    assert "\n" not in str(error.value)


def test_one_program_for_all_platforms_runs_in_a_fresh_process(tmp_path):
    """Called and differentiated by a process that has called no op."""
    pytest.importorskip("flatbuffers")
    program = exported(block, "cpu", "rocm", "cuda")
    assert program.platforms == ("cpu", "rocm", "cuda")
    path = tmp_path / "program"
    path.write_bytes(program.serialize(vjp_order=1))
    x, weight = operands()
    np.savez(tmp_path / "operands.npz", x=x, weight=weight)
    in_process(
        f"""
        import pathlib
        import jax, jax.numpy as jnp, numpy as np
        from jax import export
        import jax_hipkittens as hk
        hk.register()
        blob = pathlib.Path({str(path)!r}).read_bytes()
        block = export.deserialize(bytearray(blob)).call
        given = np.load({str(tmp_path / "operands.npz")!r})

        def total(x, weight):
            return jnp.sum(jnp.sin(block(x, weight)))

        found = jax.value_and_grad(total, argnums=(0, 1))(given["x"], given["weight"])
        np.savez({str(tmp_path / "found.npz")!r}, found[0], *found[1])
        """
    )
    found = np.load(tmp_path / "found.npz")
    expected = jax.tree.leaves(jax.jit(step)(x, weight))
    for a, b in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_an_executable_made_ahead_of_time():
    x, weight = operands()
    compiled = jax.jit(step).lower(x, weight).compile()
    before = _ffi.require().launches()
    value, _ = compiled(x, weight)
    np.testing.assert_allclose(value, step(x, weight)[0], rtol=1e-5)
    after = _ffi.require().launches()
    assert all(after[name] > before[name] for name in ALL_TARGETS)


def test_a_second_process_finds_the_program_in_the_cache(tmp_path):
    code = f"""
        import jax
        from jax import monitoring
        jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        events = []
        monitoring.register_event_listener(lambda event, **_: events.append(event))
        from tests.jax_hipkittens import test_export
        operands = test_export.operands()
        program = jax.jit(test_export.step).lower(*operands)
        events.clear()
        print(program.compile()(*operands)[0])
        print(*(events.count("/jax/compilation_cache/cache_" + each)
                for each in ("hits", "misses")))
    """
    first, second = (in_process(code).splitlines() for _ in range(2))
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("0 1", "1 0")
