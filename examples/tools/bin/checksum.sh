#!/bin/bash
# SPDX-License-Identifier: MIT
# The SHA-256 of a text. Arguments come as JSON on stdin; here only one string without escapes is taken.
set -eu
args=$(cat)
if [[ $args =~ ^\{\"text\":\ *\"([^\"\\]*)\"\}$ ]]; then
    sum=$(printf '%s' "${BASH_REMATCH[1]}" | sha256sum)
    result='{"status": "success", "output": {"sha256": "'"${sum%% *}"'"}}'
else
    result='{"status": "error", "error": "text: with quotes or backslashes it is too much for a shell"}'
fi
LC_ALL=C  # so that the length counts bytes
printf '%d\n%s' "${#result}" "$result" >&"$BRIG_RESULT_FD"
