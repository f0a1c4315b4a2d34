"""What asv runs: a file for each family, whose helpers are in `benchmarks`.

Where asv forks a process for each benchmark (--launch-method forkserver), TensorFlow is
imported once for all.
"""

import ipufeed  # noqa: F401, I001 (before TensorFlow's first op)
import tensorflow  # noqa: F401
