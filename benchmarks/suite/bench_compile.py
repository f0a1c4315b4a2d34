"""What does the first call of a program cost: compiled, and from the executable cache?

A training loop of an MLP of 784-256-256-10 units, traced before. Each start is a process.
And what comes before: a configuration, and what AutoGraph does for each function.
"""

import sys
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


class BeforeTracing:
    """In this process, in which Graphcore's names are installed."""

    timeout = 300

    def setup(self):
        import ipufeed

        ipufeed.compat.install()
        self.config = ipufeed.IPUConfig()
        self.config.auto_select_ipus = 1

    def time_configure(self):
        self.config.configure_ipu_system()

    def time_ask_each_module_for_its_file(self):
        for module in list(sys.modules.values()):
            hasattr(module, "__file__")
