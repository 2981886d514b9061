/*
 * facts: reads small facts about this host from /proc and /sys. An unreadable fact is a finding as well, so most
 * functions return why.
 */
#ifndef CLI_FACTS_H
#define CLI_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the beginning of a file without its last newline. Returns 0, or -errno with @text empty. */
int facts_text(const char *path, char *text, size_t size);
/* Reads a file that contains one number. Returns 0, -EINVAL if it contains something else, or another -errno. */
int facts_number(const char *path, uint64_t *ret_number);
/* Reads the number from a line "Name:  123 kB" of a file like /proc/meminfo, in the file's unit. Returns 0, -ENOENT
   if there is no such line, or the -errno of opening the file. */
int facts_field(const char *path, const char *name, uint64_t *ret_number);
/* Returns 0 if this process may open the file for reading and writing, otherwise -errno. */
int facts_open(const char *path);
/* Returns true if this process has the capability in effect. @capability: CAP_... of linux/capability.h. */
bool facts_capable(unsigned capability);

#endif
