/*
 * about: finds out what this process tells donors about itself (struct wire_about), so that a donor's operator can see
 * who holds its memory.
 *
 * Theory of operation. A store may be opened inside a program that is not farpage's. There, farpage's threads may call
 * no resolver, and getpwuid(3) is one. So the host is that of uname(2), and the command is that of /proc/self/comm. The
 * user's name comes from the caller, if the caller knows it; otherwise the user's number takes its place. The program
 * may have replaced uname() and getuid(), as fakeroot(1) does, so the kernel is asked directly.
 *
 * Threads: any, even a near thread (common/format.h).
 */
#ifndef CLIENT_ABOUT_H
#define CLIENT_ABOUT_H

#include "wire/wire.h"

/*
 * Describes the calling process. @user is the name of its user, or NULL for the number of getuid(2). @command is the text
 * to tell as its command, or NULL for the name of its main thread. Texts that are too long are cut, and unprintable
 * bytes become question marks. A text that cannot be found out is empty.
 */
void about_find(const char *user, const char *command, struct wire_about *ret_about);

#endif
