#!/usr/bin/env bash
# Instructions for each plan of benches/planner_instructions.rs, and how they grow: case, size, instructions, exponent since
# the size before. Needs valgrind; says so and ends when it is missing. Arguments go to cargo.
set -euo pipefail
command -v valgrind > /dev/null || { echo "skipped: valgrind is not installed"; exit 0; }
cd "$(dirname "$0")/.."
binary=$(cargo bench -q --bench planner_instructions --no-run --message-format json "$@" |
    sed -n 's/.*"executable":"\([^"]*planner_instructions[^"]*\)".*/\1/p')
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
valgrind -q --tool=callgrind --collect-atstart=no --callgrind-out-file="$out/count" \
    --toggle-collect='planner_instructions::measured' --dump-after='planner_instructions::measured' "$binary" > "$out/names"
number=0
while read -r name size; do
    number=$((number + 1))
    echo "$name $size $(sed -n 's/^summary: //p' "$out/count.$number")"
done < "$out/names" | awk '{
    grows = ($1 == last) ? sprintf("%.2f", log($3 / count) / log($2 / size)) : ""
    printf "%-45s %7d %12d %6s\n", $1, $2, $3, grows
    last = $1; size = $2; count = $3
}'
