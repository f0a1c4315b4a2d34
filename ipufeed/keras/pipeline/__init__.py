"""Keras models as pipelines: which layer call belongs to which stage, and the stages.

    scope        PipelineStage; Keras notes the stage of calls and of layers
    calls        a model as a list of layer calls, nested models taken apart
    assignment   the classes of the lists that programs read and write, and their checks
    summary      print_pipeline_stage_assignment_summary
    program      a function for each stage, for pipelining_ops.pipeline

Uses ipufeed.device; of Keras it knows what calls.py and program.py import, which are
loaded with a Keras. The options and the methods of models stand in ipufeed.keras.
"""
