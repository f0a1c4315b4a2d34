"""The model classes of `ipu.keras` of SDK 2.0 and 2.1, on models of Keras.

models has the classes; counts converts their steps and runs to those of Keras. Uses
layers and ipufeed.keras.
"""
