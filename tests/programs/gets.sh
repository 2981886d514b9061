# gets.sh KEYS: a Redis server with KEYS values of 200 bytes. A script in the server GETs as many random values.
set -e
keys=$1
redis-server --port 0 --unixsocket "$PWD/redis.socket" --save '' --appendonly no --enable-debug-command yes --daemonize no \
	>/dev/null 2>&1 &
server=$!
trap 'kill $server' EXIT
trap 'exit 1' TERM INT
ask() {
	redis-cli -s redis.socket "$@"
}
until ask ping >/dev/null 2>&1; do
	kill -0 $server
	sleep 0.05
done
ask debug populate "$keys" key 200
round=0
while [ $round -lt 10 ]; do
	ask eval "local number, length = ARGV[1] * 99991 + 1, 0
		for i = 1, $keys / 10 do
			number = (number * 1103515245 + 12345) % 2147483648
			length = length + #redis.call('get', 'key:' .. math.floor(number * $keys / 2147483648))
		end
		return length" 0 $round
	round=$((round + 1))
done
trap - EXIT
ask shutdown nosave >/dev/null 2>&1 || true
wait $server
