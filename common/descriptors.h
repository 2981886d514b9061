/*
 * descriptors: how many this process may have. Any thread.
 */
#ifndef COMMON_DESCRIPTORS_H
#define COMMON_DESCRIPTORS_H

/* As many as it may; root a few thousand, whatever the limit was (RLIMIT_NOFILE). Programs that it starts inherit it.
 */
void descriptors_raise(void);

#endif
