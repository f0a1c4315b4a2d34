"""Starts the processes of tf.data service from one that has imported TensorFlow."""

import os
import subprocess
from types import SimpleNamespace

import children
import pytest

from ipufeed.benchmark.process import child_process as own_children


@pytest.fixture(scope="module")
def forked():
    """The cluster's processes need not import TensorFlow again."""

    def popen(command, *, env, **others):
        env = {**env, "TF_CPP_MIN_LOG_LEVEL": "3"}
        env.pop("PYTHONPATH")
        if "PYTHONPATH" in os.environ:
            env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        return children.Popen(command, env=env, **others)

    with pytest.MonkeyPatch.context() as patch:
        as_before = {**vars(subprocess), "Popen": popen}
        patch.setattr(own_children, "subprocess", SimpleNamespace(**as_before))
        yield
