#!/bin/bash
# ./dev package: Debian packages of this tree in build-packages/. Fails if lintian(1) finds an error or a warning in them.
set -euo pipefail
. scripts/packages.sh

packages_need package
folder=build-packages
rm -rf "$folder"
mkdir -p "$folder/source"
# Copies the files that git knows, as they are in the working tree. dpkg-buildpackage puts its packages beside the
# source folder.
git ls-files -z --cached | xargs -0 cp --parents -P -t "$folder/source"
log=$folder/build.log
echo "building $folder ..." >&2
if ! (cd "$folder/source" && DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage --build=binary --unsigned-changes --unsigned-buildinfo) \
	</dev/null >"$log" 2>&1; then
	tail -n 40 "$log" >&2
	echo "./dev: dpkg-buildpackage failed; $log has all of its output" >&2
	exit 1
fi
rm -rf "$folder/source"
lintian --allow-root --fail-on error,warning "$folder"/*.changes
echo "built: $(echo "$folder"/*.deb)" >&2
