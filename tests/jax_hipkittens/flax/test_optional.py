import subprocess
import sys


def test_the_package_does_not_import_flax():
    code = (
        "import sys, jax_hipkittens, jax_hipkittens.flax; "
        "sys.exit(any(name.split('.')[0] == 'flax' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
