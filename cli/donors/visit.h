/*
 * visit: common code of the verbs of `farpage donors` that speak with one donor at a time. Each of these verbs reads
 * donors and key from the command line, connects, asks, and disconnects.
 *
 * Threads: the caller's.
 */
#ifndef CLI_VISIT_H
#define CLI_VISIT_H

#include "client/donor/operate.h"
#include "common/config.h"
#include "wire/auth.h"

#define VISIT_CONNECT_MS 2000u

struct visit {
	const char *uri, *key_file;
	uint8_t key[AUTH_KEY_SIZE];
	struct operate *operate;
	uint64_t slab_bytes;
};

/*
 * Reads the options of @verb, and the donors among them, as donors_option_expand() takes them. "--donor URI" is the
 * same as "URI". If no donor is given, takes those of @defaults. @defaults is NULL if a donor must be given, so that
 * nobody drains the donors of farpage.ini by chance. The strings of *ret_donors exist until exit. Returns 0, -ECANCELED
 * after --help, or -EINVAL after one logged line.
 */
int visit_read(const char *verb, const struct config_setting *settings, int argc, char **argv,
	       const struct config_list *defaults, struct config_list *ret_donors);
/* Connects to the donor, calls @act with @user, and disconnects. Returns the exit status of @act, or COMMAND_FAILED
   after one logged line. */
int visit_run(struct visit *visit, int (*act)(void *user), void *user);
/* Logs that the donor has refused (-EACCES), or that @answer is not the expected message (-EPROTO). Returns this
   error. */
int visit_denied(const struct visit *visit, const struct wire_message *answer);

#endif
