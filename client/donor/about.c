/* about: see about.h. */
#include "client/donor/about.h"

#include "common/format.h"
#include "common/text_file.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Copies @text up to its end or a newline, in a form that is valid on the wire. @ret_text is all zero. */
static void text_take(const char *text, char *ret_text, size_t size)
{
	for (size_t i = 0; i < size - 1 && text[i] && text[i] != '\n'; i++)
		ret_text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
}

void about_find(const char *user, const char *command, struct wire_about *ret_about)
{
	char number[16], name[32] = "";
	struct utsname machine;

	*ret_about = (struct wire_about){.pid = (uint32_t)getpid()};
	if (syscall(SYS_uname, &machine) == 0)
		text_take(machine.nodename, ret_about->host, sizeof ret_about->host);
	if (!user || !*user) {
		format_text(number, sizeof number, "%u", (unsigned)syscall(SYS_getuid));
		user = number;
	}
	text_take(user, ret_about->user, sizeof ret_about->user);
	if (!command) {
		text_file_read("/proc/self/comm", name, sizeof name);
		command = name;
	}
	text_take(command, ret_about->command, sizeof ret_about->command);
}
