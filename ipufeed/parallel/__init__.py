"""Programs of several IPUs: pipelines."""
