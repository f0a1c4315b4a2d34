"""Patches of a Keras, so that its features work in the scope of an IPUStrategy.

legacy patches tf_keras, encoding and clipping Keras 3, adapting both; the other patches of
Keras 3 are in ipufeed.keras.keras3. Uses ipufeed.device.
"""
