/* ask: see ask.h. Only ask_all() starts threads, and it joins them. */
#include "cli/ask.h"

#include "common/log.h"
#include "common/user.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* The most donors that are asked at a time. Each thread opens sockets of its own. */
#define ASK_THREADS_MAX 64u

struct ask_list {
	struct ask *asks;
	unsigned count;
	void (*question)(struct ask *ask);
	_Atomic unsigned next;
};

static void *ask_some(void *argument)
{
	struct ask_list *list = argument;
	unsigned i;

	while ((i = atomic_fetch_add(&list->next, 1)) < list->count)
		list->question(&list->asks[i]);
	return NULL;
}

void ask_all(struct ask *asks, unsigned count, void (*question)(struct ask *ask))
{
	struct ask_list list = {.asks = asks, .count = count, .question = question};
	pthread_t threads[ASK_THREADS_MAX];
	unsigned started = 0;

	while (started < count && started < ASK_THREADS_MAX &&
	       !pthread_create(&threads[started], NULL, ask_some, &list))
		started++;
	ask_some(&list);
	while (started)
		pthread_join(threads[--started], NULL);
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
