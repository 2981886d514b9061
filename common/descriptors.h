/* descriptors: raises the limit on file descriptors. Any thread. */
#ifndef COMMON_DESCRIPTORS_H
#define COMMON_DESCRIPTORS_H

/* Raises the soft limit (RLIMIT_NOFILE) to the hard limit. If the hard limit is below 4096, tries to raise both to
   4096, which only root can do. Child processes inherit the limit. */
void descriptors_raise(void);

#endif
