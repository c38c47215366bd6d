"""HK ops on simulated GPUs; the checks are in simulated.py."""

import json

import pytest

from tests.jax_hipkittens import bits, simulated


@pytest.mark.parametrize("chip", ["gfx950", "gfx942"])
def test_on_chip(chip):
    """All checks, in one process: what it compiles serves several of them."""
    printed = bits.main_in_process(simulated.__name__, JAX_HIPKITTENS_SIMULATE=chip)
    found = json.loads(printed.splitlines()[-1])
    assert set(found) == set(simulated.CHECKS)
    wrong = {name: outcome for name, outcome in found.items() if outcome != "right"}
    assert not wrong, "\n\n".join(f"{name}: {said}" for name, said in wrong.items())


@pytest.mark.parametrize(
    ("environment", "message", "then"),
    [
        (
            dict(JAX_HIPKITTENS_HIP_LIBRARY="/nowhere/libamdhip64.so"),
            "expected the HIP library, but it cannot be opened (/nowhere",
            True,
        ),
        (
            dict(JAX_HIPKITTENS_HIP_LIBRARY="libm.so.6"),
            "expected a HIP 6 or 7 library, but libm.so.6 has no hipGetDeviceCount",
            True,
        ),
        (dict(HIPSIM_DEVICES="0"), "failed with hipErrorNoDevice (100)", False),
        (dict(JAX_HIPKITTENS_SIMULATE="gfx90a"), "one of gfx950, gfx942, but", False),
    ],
)
def test_mistakes_in_the_environment(environment, message, then):
    """One sentence, after which the process goes on, and HK too once it is mended."""
    everything = {"JAX_HIPKITTENS_SIMULATE": "gfx950"} | environment
    code = bits.call_in_process(simulated.__name__, "main_once", **everything)
    outcome, total, works = json.loads(code.splitlines()[-1])
    assert message in outcome
    assert total == 3 and works == then
