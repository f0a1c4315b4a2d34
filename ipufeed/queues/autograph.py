"""What TensorFlow's autograph rewrites: users' functions, and none of ours.

Autograph turns the Python of a tf.function, and of all it calls, into graph control flow.
TensorFlow excepts its own modules; ipufeed's are written like them and want no rewriting,
which costs time in each trace and puts generated files into every traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipufeed.tf_patches.changes import replace


def leave_out_ipufeed() -> None:
    """Adds this package to what autograph calls as it is. Does no harm twice."""
    from tensorflow.python.autograph.core import config, config_lib

    rules = config.CONVERSION_RULES
    if not any(getattr(rule, "_prefix", None) == "ipufeed" for rule in rules):
        ours = config_lib.DoNotConvert("ipufeed")
        replace(config, "CONVERSION_RULES", (ours, *rules))


def as_user_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that a user gave us to call, rewritten where its caller would be.

    Source: `tf.data.Dataset.map` treats its function in the same way.
    """
    from tensorflow.python.autograph.core import ag_ctx
    from tensorflow.python.autograph.impl import api

    context = ag_ctx.control_status_ctx()
    # A version 1 graph does not use autograph: there functions stay as they are.
    converted: Callable[..., Any] = api.tf_convert(
        function, context, convert_by_default=False
    )
    return converted


leave_out_ipufeed()
