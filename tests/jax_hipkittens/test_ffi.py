"""The bridge to the extension: versions, registration, attributes."""

import subprocess
import sys
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest

from jax_hipkittens import _ffi


def in_process(code):
    """What ``code`` prints in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("built", "runtime", "fits"),
    [
        ((0, 3), (0, 3), True),
        ((0, 3), (0, 5), True),
        ((0, 4), (0, 3), False),
        ((1, 0), (0, 3), False),
        ((0, 3), (1, 3), False),
        ((0, 3), None, False),
    ],
)
def test_a_handler_may_be_older_than_the_runtime_but_not_newer(built, runtime, fits):
    problem = _ffi._version_problem(built, runtime)
    assert (problem is None) == fits


# Stands in for an older jaxlib: its header has version {major}.{minor}.
OLDER_JAXLIB = """
    import pathlib, tempfile
    import jax, jax.numpy as jnp
    folder = tempfile.mkdtemp()
    header = pathlib.Path(folder, "xla", "ffi", "api", "c_api.h")
    header.parent.mkdir(parents=True)
    lines = "XLA_FFI_API_MAJOR {major}", "XLA_FFI_API_MINOR {minor}"
    header.write_text("".join(f"#define {{line}}\\n" for line in lines))
    jax.ffi.include_dir = lambda: folder
    registered, register = [], jax.ffi.register_ffi_target

    def spy(name, *args, **kwargs):
        registered.append(name)
        return register(name, *args, **kwargs)

    jax.ffi.register_ffi_target = spy

    import jax_hipkittens as hk
    from jax_hipkittens import _ffi
    x = jnp.ones((2, 8, 2, 4))
    print(hk.attention(x, x, x).sum())
    print((jnp.ones(3) + 1).sum())
    print(registered)
    try:
        hk.attention(x, x, x, implementation="hk")
    except NotImplementedError as error:
        print(error)
    print(_ffi.status().handler_version, _ffi.status().runtime_version)
"""


def test_an_older_jaxlib_is_declined_and_goes_on_working():
    """The package imports and serves by XLA; nothing is registered; it says why."""
    out = in_process(OLDER_JAXLIB.format(major=0, minor=1)).splitlines()
    assert out[0] == "128.0" and out[1] == "6.0"
    assert out[2] == "[]"
    built = ".".join(map(str, _ffi.status().handler_version))
    assert f"built for XLA FFI {built}, and this jaxlib has XLA FFI 0.1" in out[3]
    assert out[3].startswith("attention: ") and "rebuild" in out[3]
    assert out[4].endswith("(0, 1)")


def test_a_newer_jaxlib_is_served():
    out = in_process(OLDER_JAXLIB.format(major=0, minor=99)).splitlines()
    assert "jax_hipkittens_attention_forward" in out[2]
    assert out[3].endswith("(0, 99)")


def test_without_the_extension_xla_serves():
    out = in_process(
        """
        import sys
        sys.modules["jax_hipkittens._hk"] = None
        import jax.numpy as jnp
        import jax_hipkittens as hk
        x = jnp.ones((1, 8, 2, 4))
        print(hk.attention(x, x, x).sum())
        try:
            hk.matmul(jnp.ones((2, 3)), jnp.ones((3, 2)), implementation="hk")
        except NotImplementedError as error:
            print(error)
        """
    ).splitlines()
    assert out[0] == "64.0"
    assert out[1].startswith(
        "matmul: the extension module jax_hipkittens._hk cannot be"
    )


def test_importing_registers_nothing():
    out = in_process(
        """
        import jax
        jax.ffi.register_ffi_target = None
        import jax_hipkittens, sys
        print("jax_hipkittens._hk" in sys.modules)
        print(bool(jax._src.xla_bridge._backends))
        """
    )
    assert out.split() == ["False", "False"]


def test_an_unknown_instruction_set_is_named():
    out = in_process(
        """
        import os
        os.environ["JAX_HIPKITTENS_HOST_ISA"] = "sse9"
        import jax.numpy as jnp
        import jax_hipkittens as hk
        try:
            hk.matmul(jnp.ones((2, 3)), jnp.ones((3, 2)))
        except ValueError as error:
            print(error)
        """
    )
    assert "sse9" in out and "plain" in out


def test_every_target_is_registered():
    names = set(_ffi.require().handlers())
    assert names == {
        f"jax_hipkittens_{target}"
        for target in (
            *("attention_forward", "attention_backward", "gemm"),
            *("norm_forward", "norm_backward", "rotary"),
        )
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, np.int64(1)),
        (np.bool_(False), np.int64(0)),
        (3, np.int64(3)),
        (np.int8(-3), np.int64(-3)),
        (2**63 - 1, np.int64(2**63 - 1)),
        (0.5, np.float32(0.5)),
        (np.float64(0.1), np.float32(0.1)),
        (-0.0, np.float32(0.0)),
    ],
)
def test_each_attribute_has_one_type(value, expected):
    """Equal values of different types would share one compiled call."""
    actual = _ffi._attribute("name", value)
    assert type(actual) is type(expected)
    assert actual.tobytes() == expected.tobytes()


def test_other_attributes_are_refused():
    with pytest.raises(ValueError, match="name=9223372036854775808 does not fit"):
        _ffi._attribute("name", 2**63)
    with pytest.raises(TypeError, match="name must be a number, not str"):
        _ffi._attribute("name", "text")


def test_results_are_typed_after_an_operand():
    like = jnp.ones((2, 3), jnp.float32)
    result = _ffi.result(like, (4,), "bfloat16")
    assert result.shape == (4,) and result.dtype == jnp.bfloat16
