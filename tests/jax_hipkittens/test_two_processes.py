"""Two processes with two devices each train as one process with one device does."""

import os
import socket
import subprocess
import sys
import time

import jax
import numpy as np

from tests.jax_hipkittens import processes

SECONDS = 120


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def start(process, port, folder, log):
    settings = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
        "HK_TEST_FOLDER": str(folder),
        "HK_TEST_PORT": str(port),
        "HK_TEST_PROCESS": str(process),
    }
    code = "from tests.jax_hipkittens.processes import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | settings,
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def wait(children, seconds):
    """Until all have ended, or one has failed, which the other would wait for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        codes = [child.poll() for child in children]
        if None not in codes or any(codes):
            return codes
        time.sleep(0.1)
    return [child.poll() for child in children]


def run_both(folder):
    """Runs ``processes.main`` in two processes; neither outlives this call."""
    port, children = free_port(), []
    logs = [folder / f"log{i}" for i in range(2)]
    try:
        for i, log in enumerate(logs):
            with log.open("w") as file:
                children.append(start(i, port, folder, file))
        codes = wait(children, SECONDS)
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert codes == [0, 0], "\n".join([str(codes), *(x.read_text() for x in logs)])


def test_a_step_of_two_processes_is_that_of_one(tmp_path):
    run_both(tmp_path)
    value, weights = jax.jit(processes.step)(*processes.draw())
    expected = {"loss": value, **weights}
    for split in ("batch", "heads"):
        one, other = (np.load(tmp_path / f"{split}{i}.npz") for i in range(2))
        assert set(one) == set(expected)
        for name, x in expected.items():
            np.testing.assert_array_equal(one[name], other[name])
            np.testing.assert_allclose(one[name], x, rtol=1e-5, atol=1e-6)
            moved = processes.draw()[0].get(name, 0)
            assert (one[name] != moved).any()
