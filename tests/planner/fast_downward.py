#!/usr/bin/env python3
"""Compares the planner with Fast Downward, `astar(lmcut())`, on PDDL exports of random domains, of
blocks, gripper, logistics, miconic and agent-like ones, and of the shipped workflows.

Needs `pip install up-fast-downward`; says so and exits 0 when it is missing. Run from the root of the repository.
"""

import importlib.util
import json
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


def fast_downward(domain, problem):
    """The cost of an optimal plan, `none`, or what went wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        run = subprocess.run(
            [sys.executable, str(driver), str(domain), str(problem), "--search", "astar(lmcut())"],
            cwd=scratch, capture_output=True, text=True,
        )
    cost = re.search(r"Plan cost: (\d+)", run.stdout)
    if cost:
        return cost.group(1)
    return "none" if run.returncode in (10, 11, 12) else f"error {run.returncode}: {run.stdout[-300:]}{run.stderr[-300:]}"


compared = wrong = 0


def compare(name, ours, found):
    global compared, wrong
    compared += 1
    if found not in ours:
        wrong += 1
        print(f"{name}: ours {' or '.join(ours)}, Fast Downward {found}")


for cost_file in sorted(folder.glob("*.cost")):
    files = [cost_file.with_suffix(f".{kind}.pddl") for kind in ("domain", "problem")]
    compare(cost_file.stem, [cost_file.read_text().strip()], fast_downward(*files))

# What the command line exports, against what it plans. A unit of cost is the finest decimal of any cost, times 1,000.
program = ["cargo", "run", "-q", "--bin", "agent-run", "--"]
for workflow in sorted(pathlib.Path("workflows").glob("*.yaml")):
    out = folder / workflow.stem
    exported = subprocess.run(
        [*program, "domain", str(workflow), "--format", "pddl", "--out", str(out)], capture_output=True, text=True
    )
    plan = subprocess.run([*program, "plan", str(workflow), "--json"], capture_output=True, text=True)
    if exported.returncode != 0:
        print(f"{workflow}: left out, it has no goal")
        continue
    document = json.loads(plan.stdout)
    assumed = sum(len(step["assumes"]) for step in document["steps"])
    ours = [str(round(document["cost"] * 10**places) * 1000 + assumed) for places in range(7)] if document["reachable"] else ["none"]
    compare(workflow, ours, fast_downward(out / "domain.pddl", out / "problem.pddl"))
print(f"{compared} problems compared, {wrong} differ")
sys.exit(1 if wrong or not compared else 0)
