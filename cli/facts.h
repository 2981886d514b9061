/*
 * facts: small things about this host, read from /proc and /sys. What cannot be read is a finding of its own, so each
 * says why.
 */
#ifndef CLI_FACTS_H
#define CLI_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The beginning of a file, without its last newline. 0 or -errno; @text is then empty. */
int facts_text(const char *path, char *text, size_t size);
/* A file that is one number; -EINVAL: it is none. */
int facts_number(const char *path, uint64_t *ret_number);
/* "Name:  123 kB" of a file like /proc/meminfo, in its own unit; -ENOENT: no such line. */
int facts_field(const char *path, const char *name, uint64_t *ret_number);
/* 0: this process may open it for reading and writing; -errno. */
int facts_open(const char *path);
/* Does this process have the capability (CAP_... of linux/capability.h) in effect? */
bool facts_capable(unsigned capability);

#endif
