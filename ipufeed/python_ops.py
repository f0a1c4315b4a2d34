"""Types of TensorFlow ops that call Python functions."""

# EagerPyFunc: tf.py_function; the others: tf.numpy_function and tf.compat.v1.py_func.
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})
