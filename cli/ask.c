/* ask: see ask.h. Only ask_all() starts threads, and it joins them. */
#include "cli/ask.h"

#include "common/log.h"
#include "common/user.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

struct ask_thread {
	struct ask *ask;
	void (*question)(struct ask *ask);
	pthread_t thread;
	bool started;
};

static void *ask_one(void *argument)
{
	struct ask_thread *thread = argument;

	thread->question(thread->ask);
	return NULL;
}

void ask_all(struct ask *asks, unsigned count, void (*question)(struct ask *ask))
{
	struct ask_thread threads[FAR_DONORS_MAX];

	assert(count <= FAR_DONORS_MAX);
	for (unsigned i = 0; i < count; i++) {
		threads[i] = (struct ask_thread){.ask = &asks[i], .question = question};
		threads[i].started = !pthread_create(&threads[i].thread, NULL, ask_one, &threads[i]);
		if (!threads[i].started)
			ask_one(&threads[i]);
	}
	for (unsigned i = 0; i < count; i++)
		if (threads[i].started)
			pthread_join(threads[i].thread, NULL);
}

void ask_figures(struct ask *ask)
{
	ask->status = far_query(ask->config, ask->uri, ask->answer);
}

int ask_with_key(struct far_config *config, const char *path, uint8_t key[AUTH_KEY_SIZE])
{
	int status = path ? auth_key_load_or_tell(path, key) : 0;

	config->key = path && status == 0 ? key : NULL;
	config->user = user_name();
	return status;
}

uint64_t ask_free(const struct far_donor_info *donor)
{
	return donor->donated > donor->leased ? donor->donated - donor->leased : 0;
}

const char *ask_reason(int status)
{
	switch (status) {
	case -EKEYREJECTED:
		return "wrong or missing key";
	case -EPROTO:
		return "something else listens there";
	case -EPROTONOSUPPORT:
		return "another version of the protocol";
	case -ENOENT:
		return "no such host";
	case -EINVAL:
		return "not an address";
	case -ETIMEDOUT:
		return "no answer";
	case -ECONNREFUSED:
		return "connection refused";
	case -EHOSTUNREACH:
		return "host unreachable";
	case -ENODEV:
		return "this host has no RDMA device";
	default:
		return strerror(-status);
	}
}
