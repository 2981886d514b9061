# Starts a PostgreSQL server as the user postgres. It fills a table, two clients update it, and it is summed.
set -e
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
data=$(mktemp -d) # where that user may go
trap 'as pg_ctl -D "$data/base" -s -m immediate stop 2>/dev/null || true; rm -rf "$data"' EXIT
trap 'exit 1' TERM INT
chown postgres "$data"
cd "$data"
as() {
	setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$data" "$@"
}
as initdb -D "$data/base" --no-sync >initdb.log 2>&1 || {
	status=$?
	cat initdb.log >&2
	exit $status
}
as pg_ctl -D "$data/base" -s -w -l "$data/server.log" -o "-k $data -h '' -c shared_buffers=64MB -c fsync=off" start
as pgbench -h "$data" -q -i -s 4 postgres >pgbench.log 2>&1
as pgbench -h "$data" -c 2 -t 500 -n --random-seed=1 postgres >>pgbench.log 2>&1
as psql -h "$data" -At -c 'select count(*), sum(aid) from pgbench_accounts' -c 'select count(*) from pgbench_history' \
	-c 'select (select sum(delta) from pgbench_history) = (select sum(tbalance) from pgbench_tellers)' postgres
as pg_ctl -D "$data/base" -s -m fast stop
