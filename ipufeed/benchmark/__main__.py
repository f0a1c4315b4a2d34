"""python -m ipufeed.benchmark: see `--help` (cli/options/parser.py)."""

from ipufeed.benchmark.cli.main import main
from ipufeed.benchmark.process.leave import leave

if __name__ == "__main__":
    leave(main())
