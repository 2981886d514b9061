/* watch: see watch.h. */
#include "cli/top/watch.h"

#include "cli/donors/donors_table.h"
#include "common/clock.h"
#include "common/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HISTORY 60 /* number of questions that are recorded */
#define STACK_BYTES (1u << 20)

/* The last answer of a donor. */
struct sight {
	struct far_donor_info info;
	int status;                /* the result of the last question: 0 or -errno */
	double answer_ms;          /* time that the last question took */
	char history[HISTORY + 1]; /* '.' or '!' for each question, the latest first */
};

struct watch {
	const struct far_config *config;
	const struct config_list *donors;
	unsigned interval; /* seconds */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake; /* signalled when the thread shall end */
	bool stop, looked;
	struct sight sights[CONFIG_LIST_MAX];
};

/* A question to a donor, and the time that it took. */
struct question {
	struct far_donor_info info;
	uint64_t ns;
};

static void ask_timed(struct ask *ask)
{
	struct question *question = ask->answer;
	struct ask plain = {.config = ask->config, .uri = ask->uri, .answer = &question->info};
	uint64_t begin = clock_now();

	ask_figures(&plain);
	ask->status = plain.status;
	question->ns = clock_now() - begin;
}

static void note(struct sight *sight, const struct ask *ask)
{
	const struct question *question = ask->answer;

	sight->info = question->info;
	sight->status = ask->status;
	sight->answer_ms = (double)question->ns / 1e6;
	memmove(sight->history + 1, sight->history, HISTORY - 1);
	sight->history[0] = ask->status < 0 ? '!' : '.';
}

static void look(struct watch *watch)
{
	static struct question questions[CONFIG_LIST_MAX]; /* only this thread uses it */
	struct ask asks[CONFIG_LIST_MAX];
	unsigned count = watch->donors->count;

	memset(questions, 0, sizeof questions);
	for (unsigned i = 0; i < count; i++)
		asks[i] =
		    (struct ask){.config = watch->config, .uri = watch->donors->items[i], .answer = &questions[i]};
	ask_all(asks, count, ask_timed);
	pthread_mutex_lock(&watch->lock);
	for (unsigned i = 0; i < count; i++)
		note(&watch->sights[i], &asks[i]);
	watch->looked = true;
	pthread_mutex_unlock(&watch->lock);
}

static void *run_watch(void *argument)
{
	struct watch *watch = argument;
	bool stop = false;

	while (!stop) {
		struct timespec until;

		look(watch);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += watch->interval;
		pthread_mutex_lock(&watch->lock);
		while (!watch->stop && !pthread_cond_timedwait(&watch->wake, &watch->lock, &until))
			;
		stop = watch->stop;
		pthread_mutex_unlock(&watch->lock);
	}
	return NULL;
}

struct watch *watch_start(const struct far_config *config, const struct config_list *donors, unsigned interval)
{
	struct watch *watch = donors->count ? calloc(1, sizeof *watch) : NULL;

	if (!watch)
		return NULL;
	*watch = (struct watch){.config = config, .donors = donors, .interval = interval};
	pthread_mutex_init(&watch->lock, NULL);
	pthread_cond_init(&watch->wake, NULL);
	if (thread_start(&watch->thread, "farpage-watch", STACK_BYTES, run_watch, watch) == 0)
		return watch;
	pthread_cond_destroy(&watch->wake);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
	return NULL;
}

void watch_stop(struct watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->stop = true;
	pthread_cond_signal(&watch->wake);
	pthread_mutex_unlock(&watch->lock);
	pthread_join(watch->thread, NULL);
	pthread_cond_destroy(&watch->wake);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
}

/* --- The table -------------------------------------------------------------------------------------------------- */

enum { WATCH_ANSWER = DONOR_COLUMNS, WATCH_HISTORY, WATCH_COLUMNS };

static void add_rows(const struct watch *watch, struct table *table)
{
	char row[WATCH_COLUMNS][TABLE_CELL_MAX];

	for (unsigned i = 0; i < watch->donors->count; i++) {
		const struct sight *sight = &watch->sights[i];
		struct far_donor_info info = sight->info;
		const struct ask ask = {.uri = watch->donors->items[i], .answer = &info, .status = sight->status};

		donor_fill(&ask, row);
		snprintf(row[WATCH_ANSWER], TABLE_CELL_MAX, sight->status < 0 ? "-" : "%.1f ms", sight->answer_ms);
		snprintf(row[WATCH_HISTORY], TABLE_CELL_MAX, "%s", sight->history);
		table_add(table, row);
	}
}

struct table *watch_table(struct watch *watch, const struct table_style *style)
{
	static struct table_column columns[WATCH_COLUMNS];
	struct table *table = NULL;

	if (!watch)
		return NULL;
	memcpy(columns, donor_columns, sizeof donor_columns);
	columns[DONOR_STATE].optional = true;
	columns[WATCH_ANSWER] = (struct table_column){.name = "ANSWER", .right = true};
	columns[WATCH_HISTORY] = (struct table_column){.name = "HISTORY", .cut = true};
	pthread_mutex_lock(&watch->lock);
	if (watch->looked && (table = table_open("top", columns, WATCH_COLUMNS, style)))
		add_rows(watch, table);
	pthread_mutex_unlock(&watch->lock);
	return table;
}
