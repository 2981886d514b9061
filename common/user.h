/*
 * user: the name of the user who runs this process.
 *
 * Threads: one thread of farpage's own programs. The name may come from a directory service, so the call may allocate,
 * read files and use the network. Never call it inside another program.
 */
#ifndef COMMON_USER_H
#define COMMON_USER_H

/* Returns the name of the user of getuid(2), or NULL if the user has none. The string is valid until the next call. */
const char *user_name(void);

#endif
