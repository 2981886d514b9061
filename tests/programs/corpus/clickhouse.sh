# Starts a ClickHouse server, a column store. It groups and joins rows in memory.
set -e
mkdir data
port=$((20000 + $$ % 20000))
cat >config.xml <<END
<yandex>
	<logger><level>error</level><console>1</console></logger>
	<listen_host>127.0.0.1</listen_host><tcp_port>$port</tcp_port>
	<path>data/</path><tmp_path>data/tmp/</tmp_path><mark_cache_size>1000000</mark_cache_size>
	<users_config>users.xml</users_config><default_profile>one</default_profile><default_database>default</default_database>
</yandex>
END
cat >users.xml <<END
<yandex>
	<profiles><one><max_threads>1</max_threads></one></profiles>
	<quotas><all></all></quotas>
	<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>one</profile><quota>all</quota></default></users>
</yandex>
END
clickhouse-server --config-file=config.xml >server.log 2>&1 &
server=$!
trap 'kill $server' EXIT
trap 'exit 1' TERM INT
ask() {
	clickhouse-client --host 127.0.0.1 --port $port --query "$@"
}
until ask 'select 1' >/dev/null 2>&1; do
	kill -0 $server
	sleep 0.1
done
ask "select count(), sum(times), sum(length(word)) from
	(select toString(cityHash64(number % 800000)) as word, count() as times from numbers(1000000) group by word)"
ask "select count(), sum(other) from (select toUInt64(number) as key from numbers(300000))
	all inner join (select toUInt64(number * 7 % 300000) as key, cityHash64(number) % 1000 as other from numbers(300000)) using key"
trap - EXIT
kill $server
wait $server
