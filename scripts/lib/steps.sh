# shellcheck shell=bash
# Runs named steps one after the other, keeps what each printed, counts what was tested.
#
# Rule: a step that fails does not stop the others, so that one run shows every failure. A step that
# runs no tests of its own counts as one test. A step that comes to no end is ended with all it started,
# and has failed. Sourced after setup.sh.

STEP_LOGS="$TARGET/test-logs"
STEP_NAMES=() STEP_RESULTS=() STEP_SECONDS=() STEP_PASSED=() STEP_FAILED=()
STEPS_VERBOSE=0
# Seconds that a step may take, unless it is told otherwise.
STEP_LIMIT=1800

# step NAME FUNCTION [SECONDS]: runs the function in a shell of its own, for so long at most.
step() {
    local name="$1" limit="${3:-$STEP_LIMIT}" log start=$SECONDS status=0 pid follower='' waited=0
    mkdir -p "$STEP_LOGS"
    log="$STEP_LOGS/$(printf '%02d' $((${#STEP_NAMES[@]} + 1)))-$name.log"
    printf '== %s\n' "$name"
    # In the background, because a shell that is part of a condition does not stop at an error; as a job
    # (-m), because otherwise the step and all it starts would ignore Ctrl-C, which some tests send.
    set -m
    (
        set -euo pipefail
        cd "$ROOT"
        "$2"
    ) >"$log" 2>&1 </dev/null &
    pid=$!
    set +m
    # shellcheck disable=SC2064  # this very job
    trap "kill -TERM -- -$pid 2>/dev/null; exit 130" INT TERM
    if [ "$STEPS_VERBOSE" -eq 1 ]; then
        tail -n +1 -f --pid="$pid" "$log" &
        follower=$!
    fi
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.5
        waited=$((waited + 1))
        if [ $((SECONDS - start)) -ge "$limit" ]; then
            printf 'error: no end after %d s, which is the limit of this step; it was ended with all it started\n' \
                "$limit" >>"$log"
            end_group "$pid"
            break
        fi
        if [ $((waited % 60)) -eq 0 ] && [ "$STEPS_VERBOSE" -eq 0 ]; then
            printf '   %ds: %s\n' $((SECONDS - start)) "$(tail -c 400 "$log" | tr '\r' '\n' |
                sed '/^[[:space:]]*$/d' | tail -n 1 | cut -c1-100)"
        fi
    done
    wait "$pid" || status=$?
    trap - INT TERM
    [ -z "$follower" ] || wait "$follower" || true
    step_done "$name" "$status" $((SECONDS - start)) "$log"
}

# end_group PID: ends the process group of a step, first with a signal that it may act on.
end_group() {
    local waited
    kill -TERM -- "-$1" 2>/dev/null || true
    for waited in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 -- "-$1" 2>/dev/null || return 0
        [ "$waited" -eq 10 ] || sleep 0.5
    done
    kill -KILL -- "-$1" 2>/dev/null || true
}

# The lines of a log that say what failed: for a panic also its message, which is on the next line.
failures() {
    awk '
        /^thread .* panicked at / { print; message = 3; next }
        message > 0 {
            if ($0 !~ /^(stack backtrace:|note: |[[:space:]]*)$/) print "    " $0
            message = /^(stack backtrace:|note: )/ ? 0 : message - 1
            next
        }
        /^(test .* FAILED$|FAILED |FAIL |CRASH |TIMEOUT |LEAK |XPASS |error)/ { print }
    ' "$1"
}

step_done() {
    local name="$1" status="$2" seconds="$3" log="$4" passed failed
    read -r passed failed < <(count_tests "$log")
    if [ "$status" -eq 0 ] && [ "$failed" -eq 0 ]; then
        [ "$passed" -gt 0 ] || passed=1
        STEP_RESULTS+=(ok)
        printf '   ok, %ds\n' "$seconds"
    else
        [ "$failed" -gt 0 ] || failed=1
        STEP_RESULTS+=(FAILED)
        printf '   FAILED (exit code %d), %ds; what failed, and the end of %s:\n' \
            "$status" "$seconds" "$log"
        failures "$log" | head -n 60 | cut -c1-400 | sed 's/^/   ! /' || true
        tail -n 60 "$log" | sed 's/^/   | /'
    fi
    STEP_NAMES+=("$name") STEP_SECONDS+=("$seconds")
    STEP_PASSED+=("$passed") STEP_FAILED+=("$failed")
}

# Adds up what cargo test, pytest and our own programs say at their ends.
count_tests() {
    awk '
        /^test result: / {
            for (i = 1; i < NF; i++) {
                if ($(i + 1) ~ /^passed/) p += $i
                if ($(i + 1) ~ /^failed/) f += $i
            }
        }
        /^=+ .*(passed|failed|error).* in [0-9.]+s.* =+$/ {
            for (i = 1; i < NF; i++) {
                if ($(i + 1) ~ /^passed/) p += $i
                if ($(i + 1) ~ /^(failed|errors?)/) f += $i
            }
        }
        /^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3 }
        END { print p + 0, f + 0 }
    ' "$1"
}

# Prints the table and the closing line; the exit code says whether all is well.
steps_summary() {
    local index passed=0 failed=0 seconds=0
    printf '\n%-28s %8s %8s %8s %8s\n' step result seconds passed failed
    for index in "${!STEP_NAMES[@]}"; do
        printf '%-28s %8s %8d %8d %8d\n' "${STEP_NAMES[index]}" "${STEP_RESULTS[index]}" \
            "${STEP_SECONDS[index]}" "${STEP_PASSED[index]}" "${STEP_FAILED[index]}"
        passed=$((passed + STEP_PASSED[index]))
        failed=$((failed + STEP_FAILED[index]))
        seconds=$((seconds + STEP_SECONDS[index]))
    done
    printf '%-28s %8s %8d\n\n' total '' "$seconds"
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
}
