"""Writers, searchers, and a SIGKILL of the daemon every few seconds: nothing lost, nothing double.

Every line that was written must be one event in the store afterwards, and a sample of them must be
found once each. Prints a table for people and, last, one JSON line; exits 1 if a claim fails.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Run the soak and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--kill-every", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    # The same parts as in the tests: a home of its own, real processes, session files that grow.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    harness: Any = importlib.import_module("harness")
    soaking: Any = importlib.import_module("soaking")
    box = harness.Sandbox()
    try:
        told = soaking.soak(box, chosen.seconds, chosen.kill_every, seed=chosen.seed)
    finally:
        box.close()
    for name, value in told.items():
        sys.stdout.write(f"{name:<22} {value}\n")
    sys.stdout.write(json.dumps({"benchmark": "soak", **told}) + "\n")
    return 0 if told["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
