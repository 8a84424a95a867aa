#!/usr/bin/env bash
# All checks of the project, cheapest first. Every step runs even if one before it failed; the last line counts.
set -uo pipefail
cd "$(dirname "$0")/.."

deny_version=0.20.2
tools="${XDG_CACHE_HOME:-$HOME/.cache}/portcullis-tools/cargo-deny-$deny_version"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0
failures=()

# check NAME COMMAND…: a check that counts as one.
check() {
    local name=$1 started=$SECONDS
    shift
    echo "== $name"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        failures+=("$name")
    fi
    echo "== $name: $((SECONDS - started)) s"
}

# tests NAME COMMAND…: a command that prints `test result:` lines; each test counts.
tests() {
    local name=$1 started=$SECONDS ok bad status
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    ok=$(awk '/^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ /^passed/) n += $(i - 1) } END { print n + 0 }' "$log")
    bad=$(awk '/^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ /^failed/) n += $(i - 1) } END { print n + 0 }' "$log")
    # A run that breaks off, or that ran nothing, has failed whatever it counted.
    if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$ok" -eq 0 ]; }; then
        bad=1
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    [ "$bad" -eq 0 ] || failures+=("$name")
    echo "== $name: $ok passed, $bad failed, $((SECONDS - started)) s"
}

cargo_deny() {
    if [ ! -x "$tools/bin/cargo-deny" ]; then
        echo "installing cargo-deny $deny_version (minutes, once)"
        cargo install --quiet --locked cargo-deny --version "$deny_version" --root "$tools" || return 1
    fi
    "$tools/bin/cargo-deny" --locked check --hide-inclusion-graph bans licenses sources
}

check "formatting" cargo fmt --all --check
check "clippy" cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
check "dependencies" cargo_deny
tests "unit and in-process tests" cargo test --locked --workspace --lib --bins --test it
check "test bed" tests/testbed/build.sh
check "test bed, gang set" tests/testbed/build.sh --gang
check "test bed, kinds set" tests/testbed/build.sh --kinds
tests "test bed's own tests" cargo test --locked -p portcullis-testbed --tests
tests "real clusters" cargo test --locked --test cluster
tests "gangs on a real cluster" cargo test --locked --test gang
tests "gangs on real workers" cargo test --locked --test worker_gang
check "portcullis with faults" make --no-print-directory faulty
tests "chaos" env CHAOS_SECONDS="${CHAOS_SECONDS:-60}" cargo test --locked --test chaos

for name in "${failures[@]}"; do
    echo "failed: $name"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
