"""Patches of a Keras, so that its features work in the scope of an IPUStrategy.

legacy patches tf_keras, encoding, clipping, logs and weights Keras 3, adapting both; the
other patches of Keras 3 are in ipufeed.keras.keras3. functions follows the functions that
Keras makes again, files keeps options in files. Uses ipufeed.device.
"""
