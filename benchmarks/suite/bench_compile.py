"""What does the first call of a program cost: compiled, and from the executable cache?

A training loop of an MLP of 784-256-256-10 units, traced before. Each start is a process.
"""

import tempfile


class FirstCall:
    """A process that compiles, and one after it that finds the executable."""

    timeout = 600

    def setup_cache(self):
        import ipufeed  # noqa: F401
        from benchmarks.targets import executables

        with tempfile.TemporaryDirectory() as folder:
            cold = executables.start("mlp", folder)
            warm = executables.start("mlp", folder)
        assert cold["compiles"] == 1
        assert warm["disk_hits"] == 1
        return cold, warm

    setup_cache.timeout = 600

    def track_compiled(self, starts):
        return starts[0]["seconds"]

    def track_from_the_cache(self, starts):
        return starts[1]["seconds"]

    def track_key(self, starts):
        return starts[1]["key_seconds"] * 1e3

    track_compiled.unit = track_from_the_cache.unit = "s"
    track_key.unit = "ms"
