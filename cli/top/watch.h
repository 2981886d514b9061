/*
 * watch: asks donors again and again, and keeps their last answers.
 *
 * Theory of operation. One thread asks all donors (ask.h), keeps the answers under a lock, and sleeps. It remembers for
 * each donor which of the last looks were answered.
 *
 * Threads: its own; the functions are for the main thread.
 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/table.h"
#include "client/far.h"
#include "common/config.h"

#define WATCH_ANSWER_MS 1500 /* a donor that has not answered by then is shown so */

struct watch;

/* Starts asking @donors every @interval seconds. @config and @donors must live until watch_stop(). Returns NULL if no
   donors are named or no thread can be started. */
struct watch *watch_start(const struct far_config *config, const struct config_list *donors, unsigned interval);
/* Ends the thread, after the answers that it waits for. Takes NULL. */
void watch_stop(struct watch *watch);
/* Makes the table of the last answers. Returns NULL before the first ones. Takes NULL. */
struct table *watch_table(struct watch *watch, const struct table_style *style);

#endif
