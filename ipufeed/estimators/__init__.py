"""Estimators: model functions that are trained and evaluated as loops on an IPU.

    model_fn, input_fn --estimator.py--> graph, session, checkpoints
        IPUEstimator           program.py    [ model_fn x iterations_per_loop ]
        IPUPipelineEstimator   pipelined.py  [ stages x iterations_per_loop ]
    tf_estimator               what programs use of TensorFlow's own module

Uses ipufeed.device, ipufeed.keras, ipufeed.ops, ipufeed.parallel and ipufeed.queues.
"""
