# remote.sh: ssh and scp between the two machines of test_operations.sh, by files in /share. donor_machine there runs the
# commands of remote_run, one after the other.
# shellcheck shell=bash

# Sleeps for half a second without a new process.
pause() {
	read -rt 0.5 <> <(:)
}

# remote_run USER@HOST COMMAND...: does what ssh does. The status is the command's.
remote_run() {
	local number status
	if [ "${1#*@}" = "$VM_ADDRESS" ]; then
		(cd && eval "${*:2}")
		return
	fi
	number=$(($(cat /share/asked 2>/dev/null || echo 0) + 1))
	echo $number >/share/asked
	printf '%s\n' "${*:2}" >/share/.ask
	mv /share/.ask "/share/ask.$number"
	until [ -e "/share/answer.$number" ]; do pause; done
	cat "/share/said.$number"
	read -r status <"/share/answer.$number"
	return "$status"
}

# remote_copy [-p] FILE... USER@HOST:PATH: does what scp does.
remote_copy() {
	local target=${*: -1} path
	path=${target#*:}
	[ "$1" != -p ] || shift
	rm -rf /share/copies
	mkdir /share/copies
	cp --preserve=mode,timestamps "${@:1:$#-1}" /share/copies/
	remote_run "${target%%:*}" "cp --preserve=mode,timestamps /share/copies/* ${path:-.}"
}
