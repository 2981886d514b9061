# Asks a web application, which runs in three forked workers, for pages.
gunicorn --preload --workers 3 --bind unix:socket --log-level error served:application &
server=$!
trap 'kill $server; wait $server' EXIT
until curl -s --unix-socket socket -o /dev/null http://localhost/?1; do
	kill -0 $server || exit
	sleep 0.1
done
for number in 1 2 3 4 5 6 7 8 9 10; do
	curl -s --unix-socket socket "http://localhost/?${number}000"
done
