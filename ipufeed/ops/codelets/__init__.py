"""Elementwise functions that are written as expressions, as codelets of Poplar are.

    vertex_edsl   the expressions: operators build a tree, `lower` is its C++ text
    expression    codelet_expression_op: a tree of tensors, as TensorFlow's operations

Uses nothing of ipufeed.
"""
