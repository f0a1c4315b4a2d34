"""Recurrent layers of version 1.

    rnn_ops          PopnnLSTM and PopnnGRU, time first
    dynamic_rnn_ops  the same for sequences of several lengths; PopnnAUGRU
    arguments        their checks

Uses ipufeed.ops.
"""
