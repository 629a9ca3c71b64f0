#!/usr/bin/env python3
"""Compares the planner with Fast Downward, `astar(lmcut())`, on PDDL exports of random domains.

Needs `pip install up-fast-downward`; says so and exits 0 when it is missing. Run from the root of the repository.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

spec = importlib.util.find_spec("up_fast_downward")
if spec is None:
    print("SKIPPED: Fast Downward is not installed; `pip install up-fast-downward` to compare with it", file=sys.stderr)
    sys.exit(0)
package = pathlib.Path(spec.origin).parent
driver = next(package.rglob("fast-downward.py"))

subprocess.run(
    ["cargo", "test", "-q", "--lib", "write_problems_for_fast_downward", "--", "--ignored"], check=True
)
folder = pathlib.Path("target/fast-downward").resolve()
compared = wrong = 0
for cost_file in sorted(folder.glob("*.cost"), key=lambda path: int(path.stem)):
    expected = cost_file.read_text().strip()
    domain, problem = (cost_file.with_suffix(f".{kind}.pddl") for kind in ("domain", "problem"))
    with tempfile.TemporaryDirectory() as scratch:
        run = subprocess.run(
            [sys.executable, str(driver), str(domain), str(problem), "--search", "astar(lmcut())"],
            cwd=scratch, capture_output=True, text=True,
        )
    cost = re.search(r"Plan cost: (\d+)", run.stdout)
    unsolvable = run.returncode in (10, 11, 12)
    found = cost.group(1) if cost else "none" if unsolvable else f"error {run.returncode}: {run.stdout[-300:]}{run.stderr[-300:]}"
    compared += 1
    if found != expected:
        wrong += 1
        print(f"{cost_file.stem}: ours {expected}, Fast Downward {found}")
print(f"{compared} problems compared, {wrong} differ")
sys.exit(1 if wrong or not compared else 0)
