"""Elementwise functions that are written as expressions, like codelets of Poplar.

    vertex_edsl   the expressions: operators build a tree, `lower` returns its C++ text
    expression    codelet_expression_op: builds TensorFlow's operations of a tree

Uses no other folder.
"""
