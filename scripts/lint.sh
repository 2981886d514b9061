#!/bin/bash
# ./dev lint: prints one line for each check, and the complaints of a failed check below its line. Status 1 if any
# failed.
set -uo pipefail
. scripts/packages.sh
. scripts/tree.sh

packages_need lint || exit 1
tree_setup build-lint clang -Dfuzz=true || exit 1
ninja -C build-lint --quiet build.ninja >/dev/null || exit 1

# files PATTERN...: prints the files of the repository, committed or not.
files() {
	find . -path './build*' -prune -o -path ./.git -prune -o \( -name "$1" "${@:2}" \) -print | sort
}

# The sources that are shipped. Tests do on purpose what no program should: leak, free twice, allocate 0 bytes or all
# memory.
sources() {
	files '*.c' | grep -v '^./tests/'
}

check_format() {
	local file status=0
	for file in $(files '*.[ch]'); do
		clang-format --dry-run -Werror "$file" 2>/dev/null && continue
		echo "$file: not as clang-format -i would have it"
		status=1
	done
	return $status
}

# clang-format wraps code, but not comments (ReflowComments). Tabs are eight columns wide.
check_width() {
	local file status=0
	for file in $(files '*.[ch]'); do
		expand "$file" | awk -v file="$file" 'length > 120 { print file ":" FNR ": " length " columns, above 120"; bad = 1 } END { exit bad }' ||
			status=1
	done
	return $status
}

# Every header stands on its own, under both compilers.
check_headers() {
	local header compiler status=0
	for header in $(files '*.h'); do
		for compiler in gcc clang; do
			echo "#include \"$header\"" | "$compiler" -x c -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I. -Iinclude \
				-fsyntax-only -Wno-unused-function -Wno-unused-variable - || status=1
		done
	done
	return $status
}

# cppcheck reads no system headers. Without these macros it reports uses of queue macros as syntax errors.
check_cppcheck() {
	sources | xargs -r cppcheck --quiet --std=c11 -j "$(nproc)" --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
		--suppress=missingIncludeSystem --suppress='*:/usr/include/*' -D_GNU_SOURCE -D__linux__ -D__x86_64__ \
		--include="/usr/include/$(gcc -print-multiarch)/sys/queue.h" -DFARPAGE_VERSION='""' -I. -Iinclude
}

check_tidy() {
	sources | xargs -r -P "$(nproc)" -n 4 clang-tidy --quiet -p build-lint 2>/dev/null |
		grep -v ' note: ' | grep -A1 -E '(warning|error): ' # the place and the line, without the path that led there
	return "${PIPESTATUS[1]}"
}

check_shell() {
	files '*.sh' -o -name '*.bash-completion' -o -path ./dev -o -path ./.ci/run |
		xargs shellcheck --shell=bash --external-sources --severity=warning --exclude=SC2034
}

check_python() {
	files '*.py' | xargs -r /usr/bin/python3 -c 'import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path).read(), path)'
}

check_manual() {
	files '*.[1-8]' | xargs -r mandoc -T lint -W error
}

# Finds sentences that must be read twice, in comments and documents (docs/contributing.md).
check_prose() {
	{
		files '*.[ch]' | grep -v '^./tests/'
		files '*.md' -o -name '*.[1-8]'
	} | xargs -r /usr/bin/python3 -B scripts/prose.py
}

failed=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for check in format width headers cppcheck tidy shell python manual prose; do
	if "check_$check" >"$output" 2>&1; then
		echo "ok      $check"
	else
		echo "failed  $check"
		sed 's/^/  /' "$output"
		failed=1
	fi
done
exit $failed
