"""Keras models as pipelines: the stages of layer calls, and the stages' functions.

    scope        PipelineStage; records the stage of layers and calls
    calls        a model as a list of layer calls, with those of nested models
    ..._calls    how the models of a Keras are taken apart, and its layers called
    ..._kit      the pipelines' part of the kit of a Keras
    stages       completes and checks the stages of calls
    assignment   the classes of the lists that programs read and write, and their checks
    summary      print_pipeline_stage_assignment_summary
    program      a function for each stage, for pipelining_ops.pipeline

Uses ipufeed.device. Files that begin with the name of a Keras import it, and are loaded
with it. The options and the methods of models are in ipufeed.keras.
"""
