#!/bin/sh
# install_samples.sh FOLDER SAMPLE...: puts each sample configuration into FOLDER (below $DESTDIR), unless the file
# exists. An existing file belongs to the operator.
set -eu

folder=${DESTDIR:-}$1
shift
mkdir -p "$folder"
for sample; do
	file=$folder/$(basename "$sample")
	if [ -e "$file" ] || [ -L "$file" ]; then
		echo "$file is kept as it is; the sample is $sample"
	else
		echo "Installing $sample to $folder"
		install -m 644 "$sample" "$file"
	fi
done
