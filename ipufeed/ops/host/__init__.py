"""What operations on the host keep in this process.

    tables            the registered tables of host embeddings
    table_arguments   the checks of their arguments

Uses checks and tf_types only.
"""
