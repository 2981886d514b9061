# redis.sh bgsave|bgrewriteaof: a forked child of a server writes the keys to a file, and another server reads the
# file.
set -e
case $1 in
bgsave) options='' last=rdb_last_bgsave_status busy=rdb_bgsave_in_progress:1 stop=nosave ;;
bgrewriteaof)
	options='--appendonly yes --auto-aof-rewrite-percentage 0'
	last=aof_last_bgrewrite_status busy='aof_rewrite_(in_progress|scheduled):1' stop=''
	;;
esac
serve() {
	redis-server --port 0 --unixsocket "$PWD/socket" --save '' $options --enable-debug-command yes --dir "$PWD" \
		--daemonize no >redis.log 2>&1 &
	server=$!
	until [ "$(redis-cli -s socket ping 2>/dev/null)" = PONG ]; do # not LOADING
		kill -0 $server
		sleep 0.05
	done
}
ask() {
	redis-cli -s socket "$@"
}
digest_and_end() {
	ask debug digest
	ask shutdown $stop >shutdown.log 2>&1 || true
	wait $server
}
serve
if [ $1 = bgsave ]; then
	ask debug populate 160000 key 200
else # which does not get to the append-only file
	ask eval 'for i = 1, 60000 do redis.call("set", "key:" .. i, string.rep(tostring(i), 40)) end' 0
fi
ask $1
while ask info persistence | grep -Eq "$busy"; do
	sleep 0.1
done
ask info persistence | grep $last
digest_and_end
serve
digest_and_end
