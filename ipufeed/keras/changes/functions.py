"""Keras's functions of steps, whose renewal makes ipufeed's programs be built again.

Stock Keras keeps a function for each of fit, evaluate and predict: `compile` and `quantize`
forget it, `make_train_function(force=True)` replaces it, and a program may set it to None.
A compiled program belongs to the function that the model had when it was built.
"""

from __future__ import annotations

from ipufeed.tf_types import KerasModel, Nest, NestFunction

# Methods that make the functions; the attribute with one has the rest of the name.
MAKERS = {
    "fit": "make_train_function",
    "evaluate": "make_test_function",
    "predict": "make_predict_function",
}


class StepFunction:
    """Keras's function of a model with a program; `train_on_batch` calls it.

    It hides the tf.function, which TensorBoard would ask for a graph that it may not have.

    Args:
        function: Keras's.
    """

    def __init__(self, function: NestFunction) -> None:
        self._function = function

    def __call__(self, *arguments: object) -> Nest:
        """Calls it."""
        return self._function(*arguments)


def is_current(model: KerasModel, mode: str, function: StepFunction) -> bool:
    """Whether a model has the function of a mode still."""
    return getattr(model, MAKERS[mode].removeprefix("make_")) is function


def step_function(model: KerasModel, mode: str) -> StepFunction:
    """Returns the function of a mode of a model, which Keras makes if there is none."""
    maker = MAKERS[mode]
    attribute = maker.removeprefix("make_")
    getattr(model, maker)()
    found = getattr(model, attribute)
    if isinstance(found, StepFunction):
        return found
    wrapped = StepFunction(found)
    setattr(model, attribute, wrapped)
    if mode == "fit" and hasattr(model, "train_tf_function"):  # of tf_keras
        model.train_tf_function = None
    return wrapped
