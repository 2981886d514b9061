#!/bin/bash
# Unmodified programs print the same bytes with a quarter of their memory local: sqlite3, sort, Python, perl, bash.
. tests/lib/donor.sh
require_userfaultfd
donors_start 2 512M --slab 8M

# same NAME LOCAL COMMAND...: checks that the command prints the same with and without far memory. Standard input is
# $FOLDER/input.
same() {
	local name=$1 budget=$2 plain far stats=$FOLDER/stats
	shift 2
	plain=$("$@" <"$FOLDER/input" | md5sum)
	far=$("$FARPAGE" run --local "$budget" "${DONORS[@]}" --quiet --stats "$stats" -- "$@" <"$FOLDER/input" | md5sum)
	expect "$name prints the same bytes with far memory as without" "$plain" "$far"
	[ "$(stat_of "$stats" far_peak_bytes)" -gt 0 ]
	ok $? "$name has far memory"
	[ "$(stat_of "$stats" resident_peak_bytes)" -le $((${budget%M} << 20)) ]
	ok $? "$name keeps its resident memory within --local"
	note "resident peak $(stat_of "$stats" resident_peak_bytes), far $(stat_of "$stats" far_peak_bytes)"
}

seq 1 300000 | awk '{ print ($1 * 7919) % 1000003, "line", $1 }' >"$FOLDER/input"
same sort 16M env LC_ALL=C sort --parallel=2 -S 64M
if command -v sqlite3 >/dev/null; then
	cat >"$FOLDER/query" <<-'END'
		create table t(a integer, b text, c integer);
		with recursive n(x) as (select 1 union all select x + 1 from n where x < 250000)
			insert into t select x * 7919 % 1000003, 'text number ' || x, x % 1000 from n;
		create index i on t(c, a);
		select c, count(*), sum(a), min(b), max(b) from t group by c order by c;
		select count(*) from t x join t y on x.a = y.c;
	END
	same sqlite3 12M sqlite3 :memory: ".read $FOLDER/query"
fi
if command -v python3 >/dev/null; then
	cat >"$FOLDER/program.py" <<-'END'
		import hashlib, subprocess
		words = {}
		for i in range(120000):
		    words["key %d" % (i * 7919 % 1000003)] = [i, str(i)]
		digest = hashlib.sha256()
		for key in sorted(words):
		    digest.update(("%s %s" % (key, words[key])).encode())
		big = bytearray(range(256)) * 50000
		big.reverse()
		digest.update(big)
		numbers = list(range(250000, 0, -1))
		numbers.sort()
		print(digest.hexdigest(), sum(numbers[::7]), subprocess.check_output(["echo", "child"]))
	END
	same python3 20M python3 "$FOLDER/program.py"
fi
same perl 8M perl -e 'my %h; while (<STDIN>) { my ($k, @v) = split; push @{$h{$k % 500}}, $_; last if $. > 100000; }
	for (sort { $a <=> $b } keys %h) { print "$_ ", scalar(@{$h{$_}}), " ", join("", sort @{$h{$_}}), "\n"; }'
same bash 8M bash -c 'mapfile -t lines; for ((i = 0; i < ${#lines[@]}; i += 97)); do echo "${lines[i]}"; done'
# Libraries for message passing must not overwrite functions that farpage replaces.
export OMPI_MCA_memory=mine
expect "farpage run switches the memory hooks of MPI libraries off, unless the user has set them" \
	"FI_MR_CACHE_MONITOR=disabled OMPI_MCA_memory=mine UCX_MEM_EVENTS=n" \
	"$("$FARPAGE" run --engine pager --local 16M "${DONORS[@]}" --quiet -- env | grep -E '^(UCX|OMPI|FI)_' | LC_ALL=C sort | xargs)"
tap_done
