/*
 * watch: asks donors for their figures at intervals, and stores their last answers.
 *
 * Theory of operation. A thread asks all donors (ask.h), stores the answers under a lock, sleeps for the interval, and
 * begins again. The thread also records which of the last questions each donor has answered.
 *
 * Threads: one of its own. The main thread calls the functions.
 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/table.h"
#include "client/far.h"
#include "common/config.h"

#define WATCH_ANSWER_MS 1500 /* a donor that has not answered within this time is shown as unreachable */

struct watch;

/* Starts asking @donors every @interval seconds. @config and @donors must live until watch_stop(). Returns NULL if no
   donors are named or no thread can be started. */
struct watch *watch_start(const struct far_config *config, const struct config_list *donors, unsigned interval);
/* Ends the thread. First waits until all donors with an open question have answered or failed. Takes NULL. */
void watch_stop(struct watch *watch);
/* Makes a table of the last answers. Returns NULL if there are none yet. Takes NULL. */
struct table *watch_table(struct watch *watch, const struct table_style *style);

#endif
