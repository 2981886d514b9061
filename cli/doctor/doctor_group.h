/* doctor_group: the memory limits of this process's control group and of the groups above it. */
#ifndef CLI_DOCTOR_GROUP_H
#define CLI_DOCTOR_GROUP_H

#include <stdint.h>

/* Returns the lowest memory limit among these groups in bytes, or UINT64_MAX if there is none. @ret_unused: the
   least memory that any of them has left. Pages of files that were not used lately count as unused. */
uint64_t doctor_group_limit(uint64_t *ret_unused);
/* Returns the least memory that any of these groups may use without being slowed down or stopped. A donor uses the
   same figure. */
uint64_t doctor_group_easy(void);

#endif
