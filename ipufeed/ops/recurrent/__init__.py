"""Recurrent layers of version 1.

    rnn_ops  PopnnLSTM and PopnnGRU, time first

Uses ipufeed.ops.
"""
