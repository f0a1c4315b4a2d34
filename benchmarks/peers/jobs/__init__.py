"""The JPEG job in four frameworks: files that `python -m ipufeed.benchmark` measures.

Decode, a random crop of 224 x 224, a random flip, floats in [0, 1], batches of 32; each as
the framework's own guide writes such a job, with two workers and for ever. The folder of
the files is in the environment: IPUFEED_PEERS_IMAGES.
"""
