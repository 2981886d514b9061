/*
 * user: the name of the user who runs this process.
 *
 * Threads: one, of a program of farpage. The name may come from a directory service, so the call may allocate, read files
 * and use the network. Never call it inside somebody else's program.
 */
#ifndef COMMON_USER_H
#define COMMON_USER_H

/* Returns the name of the user of getuid(2), or NULL if the user has none. The string stays valid until the next call. */
const char *user_name(void);

#endif
