"""The timeline of a pipeline: its record, utilisation and picture.

Uses the schedules of pipeline, and ipufeed.executable's recorder.
"""
