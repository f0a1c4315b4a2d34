"""Ops that call back into the interpreter, by the names that TensorFlow gives them."""

# tf.py_function, and the two of tf.numpy_function and tf.compat.v1.py_func.
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})
