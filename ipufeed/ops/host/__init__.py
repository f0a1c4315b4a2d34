"""What operations on the host keep in this process.

    tables             the registered tables of host embeddings
    table_arguments    the checks of their arguments
    user_library       users' shared libraries, loaded by their content
    user_op_arguments  the checks of the arguments of their operations

Uses no other folder.
"""
