"""Limits TensorFlow's autograph to the functions of users.

Autograph converts the Python of a tf.function, and of all that it calls, to graph control
flow. TensorFlow excludes its own modules. ipufeed's are excluded too: they need no
conversion, which takes time in each trace and adds generated files to tracebacks.
"""

from __future__ import annotations

from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import NestFunction


def _leave_out_ipufeed() -> None:
    from tensorflow.python.autograph.core import config, config_lib

    rules = config.CONVERSION_RULES
    if not any(getattr(rule, "_prefix", None) == "ipufeed" for rule in rules):
        rule = config_lib.DoNotConvert("ipufeed")
        replace(config, "CONVERSION_RULES", (rule, *rules))


def as_user_function(function: NestFunction) -> NestFunction:
    """Returns a user's function, converted by autograph if its caller is.

    Source: `tf.data.Dataset.map` treats its function in the same way.
    """
    from tensorflow.python.autograph.core import ag_ctx
    from tensorflow.python.autograph.impl import api

    context = ag_ctx.control_status_ctx()
    # A version 1 graph does not use autograph: its functions are not converted.
    converted: NestFunction = api.tf_convert(
        function, context, convert_by_default=False
    )
    return converted


_leave_out_ipufeed()
