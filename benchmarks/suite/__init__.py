"""What asv runs: a file for each family, whose helpers are in `benchmarks`."""
