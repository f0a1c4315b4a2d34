"""Keeps the IPU options of models in HDF5 files, and those of tf_keras in SavedModels.

Both formats have the model's metadata, in which Keras ignores unknown names. Also makes one
of several processes save a model without the others: Keras 3 without creating variables in
the scope of a strategy, tf_keras without reducing metrics.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from ipufeed.device.program.strategy_contexts import alone
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Config, KerasModel

KEY = "ipu_options"
Options = Callable[[KerasModel], Config | None]
Restore = Callable[[KerasModel, Config], None]


def keep_options_of_keras3(options: Options, restore: Restore) -> None:
    """Keeps them in the HDF5 files of Keras 3.

    Args:
        options: Returns those of a model; None: it has none.
        restore: Sets those of a file.
    """
    from keras.src.legacy.saving import legacy_h5_format, saving_utils

    _add_metadata(saving_utils, options)
    _restore_from_h5(legacy_h5_format, restore)


def save_without_the_scope() -> None:
    """Makes Keras 3 build what it compares objects with outside of a strategy's scope.

    Of an object it saves the attributes that an empty one of its kind does not have. Those
    of an empty optimizer include variables, which several processes create together: one
    of them that saved a model alone came to a broadcast that the others did not.
    """
    from keras.src.saving import saving_lib

    stock = saving_lib.get_attr_skipset

    @functools.cache
    def get_attr_skipset(kind: str) -> set[str]:
        # A new thread is in no scope.
        with ThreadPoolExecutor(1) as thread:
            found: set[str] = thread.submit(stock, kind).result()
        return found

    replace(saving_lib, "get_attr_skipset", get_attr_skipset)


def keep_options_of_tf_keras(options: Options, restore: Restore) -> None:
    """Keeps them in the HDF5 files and SavedModels of tf_keras; arguments as above."""
    from tf_keras.src.saving.legacy import hdf5_format, saving_utils
    from tf_keras.src.saving.legacy.saved_model import load

    _add_metadata(saving_utils, options)
    _restore_from_h5(hdf5_format, restore)
    _restore_from_saved_model(load, restore)


def save_metrics_of_one_process() -> None:
    """Makes tf_keras save a model's metrics without the other processes' values.

    Its files have the variables of metrics, those of Keras 3 do not.
    """
    from tf_keras.src.saving import saving_lib
    from tf_keras.src.saving.legacy import save

    for module, name in (
        (saving_lib, "save_model"),
        (saving_lib, "save_weights_only"),
        (save, "save_model"),
    ):
        replace(module, name, alone()(getattr(module, name)))


def _add_metadata(utilities: ModuleType, options: Options) -> None:
    stock = utilities.model_metadata

    @functools.wraps(stock)
    def model_metadata(
        model: KerasModel, *arguments: object, **keywords: object
    ) -> Config:
        found: Config = stock(model, *arguments, **keywords)
        own = options(model)
        return found if own is None else {**found, KEY: own}

    replace(utilities, "model_metadata", model_metadata)


def _restore_from_h5(loading: ModuleType, restore: Restore) -> None:
    stock = loading.load_model_from_hdf5

    @functools.wraps(stock)
    def load(filepath: Any, *arguments: object, **keywords: object) -> KerasModel:
        model = stock(filepath, *arguments, **keywords)
        if isinstance(filepath, loading.h5py.File):
            text = filepath.attrs.get(KEY)
        else:
            with loading.h5py.File(filepath, "r") as file:
                text = file.attrs.get(KEY)
        if text is not None:
            restore(model, json.loads(text))
        return model

    replace(loading, "load_model_from_hdf5", load)


def _restore_from_saved_model(loading: ModuleType, restore: Restore) -> None:
    stock = loading.load

    @functools.wraps(stock)
    def load(*arguments: object, **keywords: object) -> KerasModel:
        model = stock(*arguments, **keywords)
        attributes = getattr(model, "_serialized_attributes", None) or {}
        found = (attributes.get("metadata") or {}).get(KEY)
        if found is not None:
            # A model without its class has no layer calls that stages could have.
            without = {"pipeline_stage_assignment": None}
            revived = isinstance(model, loading.RevivedLayer)
            restore(model, {**found, **without} if revived else found)
        return model

    replace(loading, "load", load)
