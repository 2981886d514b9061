/*
 * advice: predicts how many pages a program would fetch, and how long it would wait for them, with more local memory.
 *
 * Theory of operation. The pager records the *depth* of each fetched page: the number of further pages of local memory
 * with which the page would have stayed local (pager/refault.h). So with N more pages of local memory, only the fetches
 * with a depth above N remain.
 *
 * Times. The time that threads wait, and the time that the pager's own threads compute, fall with the number of
 * fetches. The time that the program computes stays as it is. In the rest of the run, the program neither waits nor
 * computes. The pager's threads may have caused some of this rest, by using the processor. So the rest may fall, by at
 * most the time that they compute.
 *
 * Limits. The depth would be exact if the pager evicted the pages that were used longest ago, but the pager evicts in
 * 2Q order (pager/residents.h). The time of each wait may change with the budget.
 *
 * Threads: one.
 */
#ifndef CLI_RUN_ADVICE_H
#define CLI_RUN_ADVICE_H

#include "common/histogram.h"
#include "common/size.h"

#include <stdbool.h>
#include <stdint.h>

#define ADVICE_STEPS 128
#define ADVICE_FETCHES_MIN 1000                   /* with fewer fetches there is no advice */
#define ADVICE_WAITING_MIN_NS UINT64_C(200000000) /* shorter waits do not matter */
#define ADVICE_HALF 0.5
#define ADVICE_LITTLE 0.1
#define ADVICE_NONE 0.01 /* a share of waiting that nobody notices */

/* The facts of a run, and the fetches predicted from them. Sizes are in bytes, and for each process. */
struct advice {
	uint64_t local_bytes;
	uint64_t wanted_bytes; /* the --local with which no page would be far */
	uint64_t waiting_ns;   /* time that threads waited for far memory */
	uint64_t computing_ns; /* processor time in user mode, of the program and of the pager in it */
	uint64_t pager_ns;     /* the pager's part of it */
	uint64_t wall_ns;
	/* Pages that would be fetched if local memory were larger by 0/128, 1/128, ... of `wanted - local`. The last
	   number is 0. */
	uint64_t fetches[ADVICE_STEPS + 1];
};

/* Computes advice->fetches. @depths: of the fetched pages, in pages. The other fields of @advice are filled in
   already. */
void advice_predict(struct advice *advice, const struct histogram *depths);

/* Predict the number of fetched pages, the share of waiting in the threads' time (0 to 1), and the length of the run in
   ns. @local is the budget in bytes, at least advice->local_bytes. */
uint64_t advice_fetches(const struct advice *advice, uint64_t local);
double advice_waiting(const struct advice *advice, uint64_t local);
uint64_t advice_wall_ns(const struct advice *advice, uint64_t local);

/* Returns true if there is something to advise: the program waited for a tenth of its time or more, and enough pages
   were fetched for a prediction. */
bool advice_is_due(const struct advice *advice);
/* Returns the smallest budget, in bytes, with which threads wait for less than @share of their time. Considers only the
   steps of advice->fetches. */
uint64_t advice_local(const struct advice *advice, double share);

/* Formats a budget, rounded up to 1 MiB, or to a tenth of a GiB from 10,000 MiB on. Returns @text. */
const char *advice_size(uint64_t bytes, char text[SIZE_TEXT_MAX]);

#define ADVICE_TEXT_MAX 192
/* Writes the advice as one sentence without a full stop, or an empty text if no advice is due. Returns @text. */
const char *advice_text(const struct advice *advice, char text[ADVICE_TEXT_MAX]);

#endif
