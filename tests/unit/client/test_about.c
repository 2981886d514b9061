/* about: what a process tells donors about itself is true, fits, and is valid on the wire. */
#include "client/donor/about.h"
#include "tests/lib/tap.h"

#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COMMAND_MAX sizeof((struct wire_about *)0)->command

/* Returns true if a PROOF with @about decodes. */
static bool is_valid(const struct wire_about *about)
{
	struct wire_message message = {.type = WIRE_PROOF, .proof.about = *about}, came;
	uint8_t bytes[WIRE_MESSAGE_MAX];

	return wire_decode(bytes, wire_encode(&message, bytes), &came) == 0;
}

static void a_process_knows_itself(void)
{
	struct wire_about about;
	struct utsname machine;
	char number[16];

	uname(&machine);
	snprintf(number, sizeof number, "%u", (unsigned)getuid());
	prctl(PR_SET_NAME, "two words");
	memset(&about, 0x5a, sizeof about);
	about_find(NULL, NULL, &about);
	ok(strncmp(about.host, machine.nodename, sizeof about.host - 1) == 0, "the host is that of uname (%s)",
	   about.host);
	ok(strcmp(about.user, number) == 0, "the user's number takes the place of an unknown name (%s)", about.user);
	ok(strcmp(about.command, "two words") == 0, "the command is the name of the main thread (%s)", about.command);
	ok(about.pid == (uint32_t)getpid(), "the process is the calling one");
	ok(is_valid(&about), "a proof with what was found is valid");
	about_find("", "", &about);
	ok(strcmp(about.user, number) == 0 && !*about.command && is_valid(&about),
	   "an empty name of a user counts as unknown");
}

static void the_callers_texts_are_told(void)
{
	char longest[COMMAND_MAX + 20];
	struct wire_about about;

	about_find("alice", "blockdev far", &about);
	ok(strcmp(about.user, "alice") == 0 && strcmp(about.command, "blockdev far") == 0 && is_valid(&about),
	   "the caller's user and command are told");
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	about_find(longest, longest, &about);
	ok(strlen(about.user) == sizeof about.user - 1 && strlen(about.command) == COMMAND_MAX - 1 && is_valid(&about),
	   "texts that are too long are cut");
	about_find("al\303\251", "a\033[2Jb\tc\177", &about);
	ok(strcmp(about.user, "al??") == 0 && strcmp(about.command, "a?[2Jb?c?") == 0 && is_valid(&about),
	   "question marks take the place of bytes that cannot be printed");
	about_find("alice\nroot", "one\ntwo", &about);
	ok(strcmp(about.user, "alice") == 0 && strcmp(about.command, "one") == 0 && is_valid(&about),
	   "a text ends at a newline");
}

int main(void)
{
	a_process_knows_itself();
	the_callers_texts_are_told();
	return tap_done();
}
