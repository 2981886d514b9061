/* user: see user.h. */
#include "common/user.h"

#include <pwd.h>
#include <stddef.h>
#include <unistd.h>

const char *user_name(void)
{
	const struct passwd *user = getpwuid(getuid());

	return user && *user->pw_name ? user->pw_name : NULL;
}
