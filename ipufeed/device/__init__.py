"""The simulated IPU: what it is told, and what it then is.

    IPUConfig, create_ipu_config --> configure_ipu_system --> virtual devices
    TF_POPLAR_FLAGS              --> flags                    attach, seeds

Importing this package imports nothing, TensorFlow least of all.
"""
