"""A transformer block that learns English, as a pipeline on two IPUs.

The text is Python's own language reference, which comes with it. The first IPU has the
embedding and the attention, the second the rest; eight mini-batches make one weight
update. Prints the stage of each layer, and the loss of the next character:

    embedding: stage 0
    ...
    loss ... to ...
"""

from pydoc_data import topics

import keras
import numpy as np
import tensorflow as tf
from tensorflow.keras.ipu import PipelineStage
from tensorflow.python import ipu

LENGTH, BATCH, WIDTH, STEPS = 16, 8, 16, 64

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()


def make_dataset():
    text = "".join(topics.topics[name] for name in sorted(topics.topics)[:8])
    letters = np.clip(np.frombuffer(text.encode("ascii", "replace"), "uint8"), 0, 127)
    rows = letters[: len(letters) // (LENGTH + 1) * (LENGTH + 1)].astype("int32")
    rows = rows.reshape([-1, LENGTH + 1])
    dataset = tf.data.Dataset.from_tensor_slices((rows[:, :-1], rows[:, 1:]))
    return dataset.shuffle(1000, seed=1).batch(BATCH, drop_remainder=True).repeat()


def make_model():
    layers = keras.layers
    inputs = keras.Input((LENGTH,), dtype="int32")
    with PipelineStage(0):
        x = layers.Embedding(128, WIDTH, name="embedding")(inputs)
        attention = layers.MultiHeadAttention(2, 8, dropout=0.1, name="attention")
        attended = attention(x, x, use_causal_mask=True)
    with PipelineStage(1):
        x = layers.LayerNormalization(name="norm")(
            layers.Add(name="skip")([x, attended])
        )
        hidden = layers.Dense(2 * WIDTH, activation="gelu", name="hidden")(x)
        hidden = layers.Dropout(0.1, name="dropout")(hidden)
        outputs = layers.Dense(128, name="letters")(hidden)
    return keras.Model(inputs, outputs, name="transformer")


keras.utils.set_random_seed(1)
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = make_model()
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=8,
        gradient_accumulation_reduction_method="mean",
    )
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=STEPS,
    )
for each in model.get_pipeline_stage_assignment():
    print(f"{each.layer.name}: stage {each.pipeline_stage}")
history = model.fit(
    make_dataset(), epochs=5, steps_per_epoch=STEPS, verbose=0, shuffle=False
)
losses = history.history["loss"]
print(f"loss {losses[0]:.2f} to {losses[-1]:.2f}")
