/* descriptors: raises the limit on file descriptors. Any thread. */
#ifndef COMMON_DESCRIPTORS_H
#define COMMON_DESCRIPTORS_H

#include <stdint.h>

/* Raises the soft limit (RLIMIT_NOFILE) to the hard limit. If the hard limit is below 4096, tries to raise both to
   4096, which only root can do. Child processes inherit the limit. */
void descriptors_raise(void);

/* Raises the soft limit to the hard limit for a moment, so that this process can make descriptors of farpage's own
   although the program uses all of its numbers. Returns the earlier soft limit for descriptors_restore(), or 0 if
   nothing has changed. A limit that the program itself sets in between is lost. */
uint64_t descriptors_raise_briefly(void);
void descriptors_restore(uint64_t before);

#endif
