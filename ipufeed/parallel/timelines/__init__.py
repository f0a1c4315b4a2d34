"""The timeline of a pipeline: what was recorded, its utilisation, its picture.

Uses the schedules of pipeline, and ipufeed.executable's recorder.
"""
