# Starts a MariaDB server. It fills a table with an index, and joins it in memory.
set -e
mkdir data
mariadb-install-db --user=root --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db >install.log 2>&1
mariadbd --no-defaults --user=root --datadir="$PWD/data" --socket="$PWD/socket" --pid-file="$PWD/pid" --skip-networking \
	--innodb-buffer-pool-size=96M --innodb-flush-method=fsync >server.log 2>&1 &
server=$!
trap 'kill $server' EXIT
trap 'exit 1' TERM INT
ask() {
	mariadb --no-defaults -u root -S "$PWD/socket" -N "$@"
}
until ask -e 'select 1' >/dev/null 2>&1; do
	kill -0 $server
	sleep 0.1
done
ask -e 'create database farpage; use farpage;
	create table line (number int primary key, says varchar(200), key (says)) engine=innodb;
	insert into line select seq, concat(sha2(seq, 256), sha2(seq + 1, 256)) from seq_1_to_120000;
	select count(*), sum(crc32(one.says)) from line one join line two on two.number = one.number * 7919 % 120000;
	select number from line order by says limit 3;'
trap - EXIT
kill $server
wait $server
