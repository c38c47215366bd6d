"""Settings of the whole test run."""

import hypothesis

# Compilation makes single examples slow; the same examples every run make a failure
# on one machine a failure on all.
hypothesis.settings.register_profile(
    "default", deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("default")
