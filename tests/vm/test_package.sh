#!/bin/bash
# test_package.sh PAGES: in one machine, an operator installs the Debian packages, uses them, upgrades and removes them.
# ./dev package has built them. The machine's disk is thrown away, so dpkg may change it.
. tests/vm/guest.sh
. tests/lib/tap.sh
pages=$1
packages=(build-packages/*.deb)
names=(farpage farpage-memserver libfarpage0 libfarpage-dev)
out=/run/out

# --no-triggers: mandb(8) would read all manual pages of the machine, for minutes.
run_dpkg() {
	dpkg --no-triggers "$@" >$out 2>&1
}

run_dpkg --install "${packages[@]}"
ok $? "dpkg installs the packages" || note "$(tail -n 20 $out)"
expect "four packages are installed" "${#names[@]}" \
	"$(dpkg-query --show --showformat '${db:Status-Status}\n' "${names[@]}" | grep -cx installed)"
expect "dpkg finds each file as it was installed" "" "$(dpkg --verify "${names[@]}" 2>&1)"
check "the account of the donor is there" grep -q ^farpage: /etc/passwd
check "the group of those who may use the pager is there" grep -q ^farpage: /etc/group
for page in docs/man/*.[1-8]; do
	page=${page##*/}
	check "the manual page $page is there" [ -s "/usr/share/man/man${page##*.}/$page.gz" ]
done
if command -v systemd-analyze >/dev/null; then
	systemd-analyze verify /lib/systemd/system/farpage-memserver.service >$out 2>&1
	expect "systemd finds nothing wrong with the donor's unit" "" "$(grep -i farpage $out)"
fi
check "the donor's service is not enabled by installing it" \
	[ ! -e /etc/systemd/system/multi-user.target.wants/farpage-memserver.service ]

# A program under the pager, with the programs where the package has put them.
farpage key /run/key >$out 2>&1
farpage-memserver --listen tcp://127.0.0.1:7470 --donate 64M --slab 4M --reserve 1M --key /run/key >/run/donor 2>&1 &
donor=$!
wait_for 10 grep -q "^farpage-memserver: listening" /run/donor
ok $? "the installed donor listens" || note "$(cat /run/donor)"
seq 400000 | sort -R >/run/numbers
wanted=$(sort -n /run/numbers | sha256sum)
got=$(farpage run --engine pager --local 16M --donor tcp://127.0.0.1:7470 --key /run/key -- \
	sort -n --parallel=1 -S 60M /run/numbers 2>$out | sha256sum)
expect "the installed pager runs sort, and its output is right" "$wanted" "$got"
matches "sort had memory on the donor" "evicted [1-9]" "$(cat $out)"
kill $donor
wait $donor
expect "the installed donor ends with status 0" 0 $?

cat >/run/job.c <<'END'
#include <farpage/farpage.h>

int main(void)
{
	struct farpage_options options = {.local = 16u << 20};
	struct farpage *far;
	/* There is no donor: an error is the right answer. */
	return farpage_open(&options, &far) ? 0 : 1;
}
END
# shellcheck disable=SC2046 # a list of options
cc /run/job.c -o /run/job $(pkg-config --cflags --libs farpage) 2>$out && /run/job 2>>$out
ok $? "a program is compiled against the library with pkg-config, and runs" || note "$(cat $out)"

# The packages are upgraded while a job has its memory on the donor. This machine has no systemd, so a script answers
# for systemctl.
mkdir -p /run/systemd/system
printf '#!/bin/sh\n[ "$1" != show ] || cat /run/donor.pid\n' >/usr/local/bin/systemctl
chmod +x /usr/local/bin/systemctl
farpage-memserver --listen tcp://127.0.0.1:7470 --donate 128M --slab 4M --reserve 1M --key /run/key >/run/donor 2>&1 &
donor=$!
echo $donor >/run/donor.pid
wait_for 10 grep -q "^farpage-memserver: listening" /run/donor
mkfifo /run/go
farpage run --engine pager --local 16M --donor tcp://127.0.0.1:7470 --key /run/key -- "$pages" 64 wait check \
	</run/go >/run/job 2>&1 &
job=$!
exec 9>/run/go
check "a job has filled its memory before the upgrade" wait_for 60 grep -q filled /run/job
sed -i 's/^donate = .*/donate = 7G/' /etc/farpage/farpage-memserver.ini
run_dpkg --install "${packages[@]}"
ok $? "dpkg installs the packages over themselves" || note "$(tail -n 20 $out)"
check "the running donor is replaced by the program of the new package" wait_for 20 grep -q 'took over [1-9]' /run/donor
exec 9>&-
wait $job
expect "the job finds all its pages after the upgrade" 0 $? || note "$(cat /run/job /run/donor)"
kill $donor
wait $donor
expect "the upgraded donor ends with status 0" 0 $?
rm -r /usr/local/bin/systemctl /run/systemd/system
expect "an upgrade keeps what the operator has written" "donate = 7G" "$(grep '^donate' /etc/farpage/farpage-memserver.ini)"

# Lists no folders, because other packages have most of these folders, too.
dpkg --listfiles "${names[@]}" | while read -r file; do [ -d "$file" ] || echo "$file"; done >/run/files
mkdir -p /run/farpage /var/lib/farpage # as devices and systemd make them
run_dpkg --remove "${names[@]}"
ok $? "dpkg removes the packages" || note "$(tail -n 20 $out)"
expect "removing keeps the operator's configuration" "donate = 7G" "$(grep '^donate' /etc/farpage/farpage-memserver.ini)"
run_dpkg --purge "${names[@]}"
ok $? "dpkg purges the packages" || note "$(tail -n 20 $out)"
# The account stays, as it does with all of Debian's packages: files elsewhere may belong to it.
expect "no file of the packages is left" "" "$(xargs -a /run/files ls -d 2>/dev/null; ls -d /{etc,run,var/lib}/farpage 2>/dev/null)"
tap_done
