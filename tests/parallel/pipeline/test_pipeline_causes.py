"""Why the programs of a pipeline are compiled again, in words of the user's program."""

import numpy as np
import pytest
import tensorflow as tf
from replicated import configure

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.executable.compile.programs import history
from ipufeed.executable.explanation.explain import explain_programs
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue
from ipufeed.render.terminal_text import named


def compiled(count):
    """The programs of a pipeline with `count` mini-batches, in the order of their names."""
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.ones([2], "f")).repeat())
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    before = len(history().programs())

    @tf.function(jit_compile=True)
    def stages_of_two():
        return pipeline(
            [lambda x: x * 2.0, lambda x: x + 1.0],
            count,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
        )

    strategy = IPUStrategy()
    with strategy.scope():
        strategy.run(stages_of_two)
    return sorted(history().programs()[before:], key=lambda program: program.name)


def test_another_count_is_named_as_what_it_is(clean_system):
    """By the argument, not by an op of the loop; the program around says where to look."""
    configure(2)
    texts = [
        " ".join(str(cause) for cause in explain_programs(one, other))
        for one, other in zip(compiled(8), compiled(12), strict=True)
    ]

    assert len(texts) == 3
    around, *of_ipus = texts
    for text in of_ipus:
        assert "8 -> 12" in text
        assert "gradient_accumulation_count`" in text
        assert "_tfg_inlined" not in text
    assert "each IPU's program has its own causes" in around


@pytest.mark.parametrize(
    ("op", "shown"),
    [
        ("while/mul", "`while/mul`"),
        ("mul_tfg_inlined_while_2_1_0", "`mul`"),
        ("mul_tfg_inlined_4_of_7_iterations/cond_tfg_inlined_while_2_1_0", "`mul`"),
        ("mul_1_tfg_inlined_while_2_1_tfg_cf_sunk_4_of_7_iterations/cond", "`mul_1`"),
    ],
)
def test_an_op_has_the_name_that_its_author_knows(op, shown):
    """Not what TensorFlow adds when it puts a loop's body in place."""
    assert named(op) == shown
