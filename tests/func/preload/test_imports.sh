#!/bin/bash
# test_imports.sh LIBRARY LIST: what farpage's code calls when it runs inside a program is on a list, which says why.
here=$(dirname "$0")
. "$here/tap.sh"
command -v nm >/dev/null || skip_all "no nm"
imports=$(nm --dynamic --undefined-only "$1" | awk '{ sub("@.*", "", $2); print $2 }' | sort -u)
listed=$(sed 's/#.*//' "$2" | tr -s ' \t' '\n\n' | sed '/^$/d' | sort -u)
[ -n "$imports" ]
ok $? "the library's imports are known"
expect "farpage imports nothing that is not listed" "" "$(comm -23 <(echo "$imports") <(echo "$listed"))"
for name in malloc calloc realloc free vsnprintf snprintf sscanf strerror strtol __ctype_b_loc getnameinfo; do
	! grep -qx "$name" <<<"$listed"
	ok $? "$name is not listed"
done
tap_done
