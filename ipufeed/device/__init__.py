"""The simulated IPU: what it is told, what it then is, and how programs are run on it.

    IPUConfig, create_ipu_config --> configure_ipu_system --> virtual devices
    TF_POPLAR_FLAGS              --> flags                    attach, seeds
    scopes, strategy             --> where a program is built
    loops, compiler              --> one program of a Python function

Importing this package imports nothing, TensorFlow least of all.
"""
