/*
 * doctor_group: what the control group of this process allows it, and those above.
 */
#ifndef CLI_DOCTOR_GROUP_H
#define CLI_DOCTOR_GROUP_H

#include <stdint.h>

/* The least limit on memory, bytes; UINT64_MAX: none. @ret_unused: the least that any of the groups has left, pages of
   files that were not used lately counting as unused. */
uint64_t doctor_group_limit(uint64_t *ret_unused);
/* The least that any of them may use without being slowed down or stopped, which is what a donor goes by. */
uint64_t doctor_group_easy(void);

#endif
