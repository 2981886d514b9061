/*
 * about: finds out what this process tells donors about itself (struct wire_about), so that a donor's operator can see
 * who holds its memory.
 *
 * Theory of operation. A store may be opened inside a program that is not farpage's. In that program, farpage's
 * threads may call no resolver, and getpwuid(3) is a resolver. So uname(2) gives the host, and /proc/self/comm gives
 * the command. The caller gives the user's name if it knows the name. Otherwise the user's number takes its place.
 * The program may have replaced uname() and getuid(), as fakeroot(1) does, so about_find() asks the kernel directly.
 *
 * Threads: any, even a near thread (common/format.h).
 */
#ifndef CLIENT_ABOUT_H
#define CLIENT_ABOUT_H

#include "wire/wire.h"

/*
 * Describes the calling process. @user is the name of its user, or NULL for the number of getuid(2). @command is the
 * command to tell, or NULL for the name of the process's main thread. Texts that are too long are cut, and
 * unprintable bytes become question marks. A text that cannot be found out is empty.
 */
void about_find(const char *user, const char *command, struct wire_about *ret_about);

#endif
