# Real programs with a quarter of their memory local print the same bytes and give all slabs back. Over RDMA the donor's
# process does no work for the paging.
# shellcheck shell=bash disable=SC2153,SC2154

# program_local NAME COMMAND...: runs a program with all memory local, its output to /run/NAME.local. Prints its peak
# memory in MiB.
program_local() {
	/usr/bin/python3 - "$@" <<-'END'
		import resource, subprocess, sys
		with open(f"/run/{sys.argv[1]}.local", "wb") as out, open(f"/run/{sys.argv[1]}.input") as text:
		    subprocess.run(sys.argv[2:], stdin=text, stdout=out, check=True)
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
	END
}

# Makes the inputs. For sort: lines of 16000 random characters. For sqlite3: rows that fill a page, and a smaller table
# that has the numbers of these rows.
programs_inputs() {
	/usr/bin/python3 - <<-'END'
		import base64, random
		text = base64.b64encode(random.Random(7).randbytes(21 << 20))
		with open("/run/sort.input", "wb") as out:
		    for at in range(0, len(text), 16000):
		        out.write(text[at:at + 16000] + b"\n")
	END
	cat >/run/sqlite3.input <<-'END'
		CREATE TABLE large(id INTEGER PRIMARY KEY, says TEXT);
		CREATE TABLE small(id INTEGER PRIMARY KEY, other INTEGER);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 7000)
			INSERT INTO large SELECT i, printf('%d %3900d', i * 7919 % 7001, i) FROM n;
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
			INSERT INTO small SELECT i, i * 1681 % 6997 + 1 FROM n;
		SELECT small.id, substr(large.says, 1, 8), length(large.says) FROM small JOIN large ON large.id = small.other;
		SELECT count(*), sum(other) FROM small;
	END
}

# program NAME COMMAND...: checks that the program prints the same with a quarter of its memory local.
program() {
	local name=$1 peak budget started=$SECONDS
	shift
	peak=$(program_local "$name" "$@")
	budget=$((peak / 4 < 8 ? 8 : peak / 4))
	"$FARPAGE_EXE" run --local "${budget}M" "${KEY[@]}" --donor "$scheme://10.77.0.1" --donor "$scheme://10.77.1.1" -- \
		"$@" <"/run/$name.input" >"/run/$name.out" 2>"/run/$name.err"
	expect "$name exits with status 0 with $budget of ${peak} MiB local" 0 $?
	expect "$name prints the same bytes with far memory as without" \
		"$(sha256sum <"/run/$name.local")" "$(sha256sum <"/run/$name.out")"
	matches "$name fetches at least 100 pages from donors" "fetched [1-9][0-9]{2,} pages" "$(cat "/run/$name.err")"
	note "$(cat "/run/$name.err")"
	note "both runs took $((SECONDS - started)) s"
}

pages_busy_twice() {
	[ "$(grep -c ^busy /run/pages.out)" = 2 ]
}

# work_of COMMAND...: runs the command. Leaves the work of the donor's process meanwhile in WAKES and CPU_US, and the
# time in MS.
work_of() {
	local wakes cpu since
	donor_ask donor_work
	read -r wakes cpu <<<"$ANSWER"
	since=$(now_us)
	"$@"
	donor_ask donor_work
	MS=$((($(now_us) - since) / 1000))
	read -r WAKES CPU_US <<<"$ANSWER"
	WAKES=$((WAKES - wakes)) CPU_US=$((CPU_US - cpu))
}

pages_busy() {
	job_go pages
	wait_for 10 pages_busy_twice
}

# Compares the work of the donor's process while a job fetches and evicts pages with its work while the job is idle. The
# job leases its slabs before, because leases are work of the process. Every second page that the job touches is far.
donor_idle() {
	local idle idle_ms beats leases passed
	job pages 0 -- "$FARPAGE_PAGES" 16 busy=3 wait busy=3 wait
	job_wait pages busy=3 30
	pause 1
	donor_ask donor_leases
	leases=$ANSWER
	work_of pause 3
	idle="$WAKES times, $CPU_US us, in $MS ms"
	beats=$WAKES idle_ms=$MS
	work_of pages_busy
	beats=$((beats * MS / idle_ms + 10))
	passed=$(sed -n 's/^passed //p' "/run/pages.out" | tail -n 1)
	donor_ask donor_leases
	job_go pages
	[ $((WAKES - beats)) -le $((passed / 50)) ]
	ok $? "the donor's process does not wake for pages that a client reads and writes"
	note "$passed pages: woken $WAKES times, $CPU_US us, in $MS ms; none: $idle; $((ANSWER - leases)) slabs lent or back"
	job_fine pages 10 "a job reads every byte right without work of the donor's process"
}

programs_given_back() {
	local before=$SECONDS
	wait_for 15 nothing_leased 0 && wait_for 15 nothing_leased 1
	ok $? "both donors have all slabs back within 30 s of the programs' end"
	note "after $((SECONDS - before)) s"
}

part_programs_idle() {
	donor_idle
}

part_programs_sort() {
	programs_inputs
	program sort sort --parallel=1 --buffer-size=64M
	programs_given_back
}

part_programs() {
	programs_inputs
	program sort sort --parallel=1 --buffer-size=64M
	program sqlite3 sqlite3 :memory:
	[ "$scheme" = tcp ] || donor_idle
	programs_given_back
}
