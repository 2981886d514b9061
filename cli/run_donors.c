/* run_donors: see run_donors.h. A thread for each question, so that the slowest decides and not the sum. */
#include "cli/run_donors.h"
#include <pthread.h>
#include <stdbool.h>

struct question {
	const struct far_config *config;
	const char *uri;
	struct far_donor answer;
	int error;
	pthread_t thread;
	bool started;
};

static void *ask(void *argument)
{
	struct question *question = argument;
	question->error = far_query(question->config, question->uri, &question->answer);
	return NULL;
}

int run_donors_check(const struct far_config *config, uint64_t *ret_free)
{
	struct question questions[FAR_DONORS_MAX] = {0};
	uint64_t unused = 0;
	int error = 0;
	for (unsigned i = 0; i < config->donor_count; i++) {
		questions[i].config = config;
		questions[i].uri = config->donors[i];
		questions[i].started = !pthread_create(&questions[i].thread, NULL, ask, &questions[i]);
		if (!questions[i].started)
			ask(&questions[i]);
	}
	for (unsigned i = 0; i < config->donor_count; i++) {
		const struct far_donor *answer = &questions[i].answer;
		if (questions[i].started)
			pthread_join(questions[i].thread, NULL);
		if (!error)
			error = questions[i].error;
		if (!questions[i].error && answer->donated > answer->leased)
			unused += answer->donated - answer->leased;
	}
	if (!error)
		*ret_free = unused;
	return error;
}
