#!/bin/bash
# test_imports.sh LIBRARY LIST: checks that the preload library imports only the functions on the list (near_imports).
# The list says why each is allowed in a program's threads.
. tests/lib/tap.sh
command -v nm >/dev/null || skip_all "no nm"
imports=$(nm --dynamic --undefined-only "$1" | awk '{ sub("@.*", "", $2); print $2 }' | sort -u)
listed=$(sed 's/#.*//' "$2" | tr -s ' \t' '\n\n' | sed '/^$/d' | sort -u)
check "nm lists the imports of the preload library" [ -n "$imports" ]
expect "the preload library imports only functions listed in near_imports" \
	"" "$(comm -23 <(echo "$imports") <(echo "$listed"))"
for name in malloc calloc realloc free vsnprintf snprintf sscanf strerror strtol __ctype_b_loc getnameinfo; do
	! grep -qx "$name" <<<"$listed"
	ok $? "near_imports does not allow $name"
done
tap_done
