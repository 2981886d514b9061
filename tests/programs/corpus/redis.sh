# Keys, a snapshot by a forked child, and another server that reads it.
set -e
serve() {
	redis-server --port 0 --unixsocket "$PWD/socket" --save '' --enable-debug-command yes --dir "$PWD" --daemonize no >redis.log 2>&1 &
	server=$!
	until [ "$(redis-cli -s socket ping 2>/dev/null)" = PONG ]; do # not LOADING
		kill -0 $server
		sleep 0.05
	done
}
ask() {
	redis-cli -s socket "$@"
}
serve
ask debug populate 160000 key 200
ask bgsave
while ask info persistence | grep -q 'rdb_bgsave_in_progress:1'; do
	sleep 0.1
done
ask info persistence | grep rdb_last_bgsave_status
ask debug digest
ask shutdown nosave >shutdown.log 2>&1 || true
wait $server
serve
ask debug digest
ask shutdown nosave >shutdown.log 2>&1 || true
wait $server
