# Asks PHP's FastCGI server for pages. Its two workers are forked, and have given up root's rights. So the page is in a
# folder of its own, which they may read.
pages=$(mktemp -d)
cp page.php "$pages"
chmod 755 "$pages"
cat >fpm.conf <<END
[global]
error_log = $PWD/log
daemonize = no
[www]
user = nobody
group = nogroup
listen = $PWD/socket
pm = static
pm.max_children = 2
END
"$(ls /usr/sbin/php-fpm* | head -n 1)" -n -F -y fpm.conf 2>/dev/null &
server=$!
trap 'kill $server; wait $server; rm -r "$pages"' EXIT
while [ ! -S socket ]; do
	kill -0 $server || exit
	sleep 0.1
done
for number in 1 2 3 4 5 6; do
	SCRIPT_FILENAME=$pages/page.php REQUEST_METHOD=GET QUERY_STRING=n=$number cgi-fcgi -bind -connect socket | tail -n 1
done
