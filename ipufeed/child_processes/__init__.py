"""Gives the child processes of a program what `python -m ipufeed.run` gives the program.

    ipufeed.run --PYTHONPATH--> a child's sitecustomize --import tensorflow--> prepare()

A child that is started by `multiprocessing` or with `sys.executable` inherits the
environment, and so do its children. Until it imports TensorFlow it imports nothing more.
Uses ipufeed.compat.
"""

from __future__ import annotations

import os
import sys

# The environment variable with the Python that a checkout belongs to; read by
# sitecustomize.py, which cannot import this file.
PREFIX = "IPUFEED_PREFIX"


def prepare() -> None:
    """Loads the simulated IPU and makes Graphcore's names importable, in this process."""
    from ipufeed import _native, compat

    _native.load()
    compat.install()
    # TensorFlow logs at its first listing of the devices that GPUs are missing. This one
    # starts nothing that the program may still configure. tf.config.list_physical_devices
    # would create the eager context, in which the variables of functions would remain
    # eager after disable_eager_execution().
    from tensorflow.python import pywrap_tfe

    pywrap_tfe.TF_ListPhysicalDevices()


def inherit() -> None:
    """Makes the child processes of this one prepare themselves."""
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [
        each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each
    ]
    if here not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *folders])
    os.environ[PREFIX] = sys.prefix
