"""The functions of the library's ops: TensorFlow's own, each made at its first use."""

import inspect
import sys

import pytest
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.framework import _pywrap_python_op_gen

from ipufeed import _native


@pytest.fixture(scope="module")
def all_at_once():
    """What tf.load_op_library would give."""
    handle = pywrap_tf_session.TF_LoadLibrary(str(_native.find_library()))
    text = _pywrap_python_op_gen.GetPythonWrappers(
        pywrap_tf_session.TF_GetOpList(handle)
    )
    pywrap_tf_session.TF_DeleteLibraryHandle(handle)
    found = {"__name__": "all_at_once"}
    exec(text, found)
    return {
        name: each
        for name, each in found.items()
        if name.startswith("ipufeed_")
        and inspect.isfunction(each)
        and not name.endswith("_eager_fallback")
    }


def test_each_op_has_tensorflows_function(all_at_once):
    ops = _native.load()
    names = {name for name in dir(ops) if name.startswith("ipufeed_")}

    assert names == set(all_at_once)
    for name, theirs in all_at_once.items():
        ours = getattr(ops, name)
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        assert ours.__doc__ == theirs.__doc__
        assert getattr(ops, name) is ours


def test_a_function_is_made_when_it_is_used():
    ops = _native.load()
    vars(ops).pop("ipufeed_clock", None)

    clock = ops.ipufeed_clock

    assert vars(ops)["ipufeed_clock"] is clock
    assert sys.modules[clock.__module__] is ops


def test_an_op_that_does_not_exist_is_named():
    with pytest.raises(AttributeError, match="no attribute 'ipufeed_clocks'"):
        _native.load().ipufeed_clocks  # noqa: B018
