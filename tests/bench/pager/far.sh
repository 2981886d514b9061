#!/bin/bash
# far.sh BENCH DONORS [OPTION]: runs bench_far against DONORS donors on loopback. FARPAGE_MEMSERVER names the donor program.
set -euo pipefail
. tests/lib/donor.sh
donors_start "$2" 512M
"$1" "${@:3}" "${DONOR_URIS[@]}"
