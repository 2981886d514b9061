# Keys, a rewrite of the append-only file by a forked child, and another server that reads it.
set -e
serve() {
	redis-server --port 0 --unixsocket "$PWD/socket" --save '' --appendonly yes --auto-aof-rewrite-percentage 0 \
		--enable-debug-command yes --dir "$PWD" --daemonize no >redis.log 2>&1 &
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
ask eval 'for i = 1, 60000 do redis.call("set", "key:" .. i, string.rep(tostring(i), 40)) end' 0
ask bgrewriteaof
while ask info persistence | grep -Eq 'aof_rewrite_(in_progress|scheduled):1'; do
	sleep 0.1
done
ask info persistence | grep aof_last_bgrewrite_status
ask debug digest
ask shutdown >shutdown.log 2>&1 || true
wait $server
serve
ask debug digest
ask shutdown >shutdown.log 2>&1 || true
wait $server
