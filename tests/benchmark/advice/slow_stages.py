"""Pipelines whose stages wait or compute for a known time."""

import time

import tensorflow as tf

from ipufeed.benchmark.advice.advice import Case
from ipufeed.benchmark.advice.rules import find_advice
from ipufeed.benchmark.stages.explain import explain

SECONDS = 0.8


def explained(dataset, seconds=SECONDS, **options):
    """Explains a dataset; on a busy machine with up to nine times the seconds."""
    for share in (1, 3, 9):
        found = explain(dataset, share * seconds, **options)
        if found is not None:
            return found
    raise AssertionError("no explanation")


def python(work, name):
    def function(x):
        def run(value):
            work()
            return value

        y = tf.numpy_function(run, [x], x.dtype)
        y.set_shape(x.shape)
        return y

    function.__name__ = name
    return function


def sleeps(seconds, name="decode"):
    return python(lambda: time.sleep(seconds), name)


def burns(seconds, name="decode"):
    def burn():
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    return python(burn, name)


def endless():
    return tf.data.Dataset.range(10**9)


def advice_for(dataset, usable_cpus=4, **facts):
    explanation = explained(dataset, cut=False)
    return find_advice(Case(explanation, usable_cpus, **facts))


def codes(advice):
    return [each.code for each in advice]
