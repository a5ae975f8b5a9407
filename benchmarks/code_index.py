"""How long `cortex index` takes: a repository of 1,000 files, one changed file, no change at all.

The repository is made here, the command is a process of its own, and its start counts. Prints a
table for people and, last, one JSON line.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORTEX = [sys.executable, str(ROOT / "src" / "cortex" / "__main__.py")]
GOALS = {"first": 5.0, "one_changed": 0.3, "unchanged": 1.0}
WORDS = "order invoice account ledger queue session token cache index route policy event".split()


def python(rng: random.Random, name: str) -> str:
    """Return a module with a class and some functions."""
    parts = [
        f'"""About {name}."""\n\nimport os\nfrom typing import Any\n\nLIMIT_{name.upper()} = 5\n'
    ]
    for number in range(8):
        a, b = rng.sample(WORDS, 2)
        parts.append(
            f"def {a}_{b}_{number}(value: int, other: Any) -> int:\n"
            f'    """Find the {a} of a {b}, or raise."""\n'
            f"    if value > LIMIT_{name.upper()}:\n        raise ValueError({a!r})\n"
            f"    total = sum(range(value))\n    return total + {number}\n"
        )
    methods = "".join(
        f"    def {word}(self) -> str:\n        return self._{word} + {word!r}\n\n"
        for word in WORDS
    )
    parts.append(f'class {name.title()}:\n    """Holds a {name}."""\n\n{methods}')
    return "\n\n".join(parts)


def typescript(rng: random.Random, name: str) -> str:
    """Return a module with an interface, a class and some functions."""
    parts = [f'import {{ x }} from "./x";\n\nexport const LIMIT = {rng.randint(1, 99)};\n']
    for number in range(10):
        a, b = rng.sample(WORDS, 2)
        parts.append(
            f"/** Maps a {a} to its {b}. */\n"
            f"export function {a}To{b.title()}{number}(v: number) {{\n"
            f"  if (v > LIMIT) {{\n    throw new Error('{a}');\n  }}\n  return v * {number};\n}}\n"
        )
    methods = "".join(f"  {word}(): string {{\n    return '{word}';\n  }}\n\n" for word in WORDS)
    return "\n".join([*parts, f"export class {name.title()} {{\n{methods}}}\n"])


def go(rng: random.Random, name: str) -> str:
    """Return a file with a struct and its methods."""
    kind = name.title()
    head = f'package {name}\n\nimport "errors"\n\n// {kind} is held here.\n'
    parts = [f"{head}type {kind} struct {{\n\tlimit int\n}}\n"]
    for number in range(12):
        a, b = rng.sample(WORDS, 2)
        parts.append(
            f"// {a.title()}{number} finds the {b}.\n"
            f"func (s *{kind}) {a.title()}{number}(key string) (int, error) {{\n"
            f'\tif s.limit > {number} {{\n\t\treturn 0, errors.New("{b}")\n\t}}\n'
            "\treturn s.limit, nil\n}\n"
        )
    return "\n".join(parts)


def markdown(rng: random.Random, name: str) -> str:
    """Return a page with a few sections."""
    sections = [
        f"## {rng.choice(WORDS).title()} {number}\n\n" + " ".join(rng.choices(WORDS, k=120)) + ".\n"
        for number in range(6)
    ]
    return "\n".join([f"# {name.title()}\n", *sections])


MAKERS = {"py": python, "ts": typescript, "go": go, "md": markdown}


def make(root: Path, files: int) -> None:
    """Write a repository; the same one every time."""
    rng = random.Random(4)
    for number in range(files):
        extension = list(MAKERS)[number % len(MAKERS)]
        name = WORDS[number % len(WORDS)]
        path = root / f"part{number % 40}" / f"{name}_{number}.{extension}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MAKERS[extension](rng, name))
    (root / ".gitignore").write_text("*.log\nout/\n")


@dataclass(frozen=True)
class Took:
    """Time on the clock, and of all cores together: on a busy machine only the latter tells."""

    wall_s: float
    cpu_s: float


def run(root: Path) -> tuple[Took, int, int]:
    """Index once in a new process; returns what it took, all chunks, and files read anew."""
    before = os.times()
    began = time.perf_counter()
    command = [*CORTEX, "index", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall_s = time.perf_counter() - began
    after = os.times()
    cpu_s = after.children_user - before.children_user
    cpu_s += after.children_system - before.children_system
    said = re.match(r"([\d,]+) chunks .*\(([\d,]+) read anew", done.stdout)
    assert said, done.stdout
    chunks, anew = (int(number.replace(",", "")) for number in said.groups())
    return Took(wall_s, cpu_s), chunks, anew


def median(took: list[Took]) -> Took:
    """Return the median of both times."""
    walls, cpus = [t.wall_s for t in took], [t.cpu_s for t in took]
    return Took(statistics.median(walls), statistics.median(cpus))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cortex-index-") as folder:
        root = Path(folder)
        make(root, options.files)
        first_took, chunks, _ = run(root)
        changed: list[Took] = []
        unchanged: list[Took] = []
        for number in range(options.runs):
            victim = sorted(root.glob("part*/*.py"))[number]
            victim.write_text(victim.read_text() + f"\n\ndef added_{number}():\n    return 1\n")
            took, _, anew = run(root)
            assert anew == 1
            changed.append(took)
            took, _, anew = run(root)
            assert anew == 0
            unchanged.append(took)
    figures = {
        "first": first_took,
        "one_changed": median(changed),
        "unchanged": median(unchanged),
    }
    print(f"{options.files} files, {chunks} chunks, start of the process included")
    for name, took in figures.items():
        goal = f"goal {GOALS[name]:g} s"
        print(f"{name:12} {took.wall_s:7.3f} s   {goal:12} {took.cpu_s:7.3f} s of CPU")
    values: dict[str, Any] = {"benchmark": "code_index", "files": options.files, "chunks": chunks}
    for name, took in figures.items():
        values |= {f"{name}_s": round(took.wall_s, 3), f"{name}_cpu_s": round(took.cpu_s, 3)}
    print(json.dumps(values))
    return 0


if __name__ == "__main__":
    sys.exit(main())
