/* disk: the loads of test_disk_threads.c, with a random delay before each atomic operation. The macros must come before
   the code that they change. */
/* clang-format off */
#include "tests/unit/blockdev/racing_atomics.h"

#include "blockdev/page_locks.c"
#include "blockdev/disk.c"
#include "blockdev/disk_requests.c"
#include "tests/unit/blockdev/test_disk_threads.c"
