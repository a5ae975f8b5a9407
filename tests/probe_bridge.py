"""The real bridge, in front of a daemon that also has the probe tools."""

import sys
from pathlib import Path

from cortex.edge.bridge import main

if __name__ == "__main__":
    probe = str(Path(__file__).with_name("probe.py"))
    sys.exit(main(sys.argv[1:], command=[sys.executable, probe]))
