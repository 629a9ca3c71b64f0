#!/usr/bin/env bash
# The real cargo-insta settles the snapshots that `agent-run test` leaves: accept, reject, and what comes of each.
# Usage: tests/cargo-insta.sh [AGENT_RUN]   (default: target/debug/agent-run, which is built when it is not there)
# cargo-insta is taken from the path or from CARGO_INSTA, else installed into target/cargo-insta, which takes minutes.
# Without it nothing is tested, and the script says so and ends with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
repo=$PWD

run=${1:-$repo/target/debug/agent-run}
if [ ! -x "$run" ]; then
  cargo build
fi

insta=${CARGO_INSTA:-$(command -v cargo-insta || true)}
if [ -z "$insta" ]; then
  insta=$repo/target/cargo-insta/bin/cargo-insta
  if [ ! -x "$insta" ]; then
    cargo install --debug --locked cargo-insta --root "$repo/target/cargo-insta" || {
      echo "SKIPPED: cargo-insta cannot be installed; nothing was tested" >&2
      exit 0
    }
  fi
fi

project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
# A crate around the workflow: cargo-insta looks for snapshots where cargo has a package.
mkdir -p "$project/src" "$project/workflows" "$project/tests"
: >"$project/src/lib.rs"
printf '[package]\nname = "asked"\nversion = "0.1.0"\nedition = "2021"\n\n[workspace]\n' >"$project/Cargo.toml"
# The workflow that the tests of the command line have too.
sed -n '/const ASK: &str/,/^";$/p' tests/cli/mod.rs | sed '1d;$d' >"$project/workflows/ask.yaml"
grep -q 'Answer this' "$project/workflows/ask.yaml" || {
  echo "FAILED: tests/cli/mod.rs has no workflow ASK any more" >&2
  exit 1
}
cat >"$project/tests/ask.yaml" <<'YAML'
workflow: ../workflows/ask.yaml
cases:
  answers:
    input: What?
    replies: {answer: {text: Forty-two}}
    expect: {prompts: snapshot}
YAML
cd "$project"
snap=tests/snapshots/ask__answers__answer.snap
unset CI

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
tests() { # tests passes|fails
  local passed=fails
  CI='' "$run" test >out.txt 2>&1 && passed=passes
  [ "$passed" = "$1" ] || { cat out.txt >&2; fail "agent-run test $passed"; }
}
change() { sed -i.old "s/$1/$2/" workflows/ask.yaml; }

tests fails
[ -f "$snap.new" ] || fail "a new snapshot is not pending"
"$insta" pending-snapshots >pending.txt 2>&1
grep -q "$(basename "$snap")" pending.txt || fail "cargo-insta does not see the new snapshot"
"$insta" accept
[ -f "$snap" ] && [ ! -f "$snap.new" ] || fail "accept did not move the new snapshot"
cp "$snap" first.snap
tests passes

change 'Answer this' 'Please answer'
tests fails
"$insta" reject
[ ! -f "$snap.new" ] || fail "reject left the pending snapshot"
cmp "$snap" first.snap || fail "reject changed the snapshot"
tests fails

"$insta" accept
[ ! -f "$snap.new" ] || fail "accept left the pending snapshot"
grep -q 'Please answer: What?' "$snap" || fail "the accepted snapshot has not the new prompt"
tests passes

# What cargo-insta wrote is what --update would have written.
cp "$snap" second.snap
"$run" test --update >/dev/null
cmp "$snap" second.snap || fail "cargo-insta writes another file than --update"
echo "ok: $("$insta" --version) accepts and rejects the snapshots of agent-run test"
