/* rig: a far store over real donors, and requests that are waited for. A test may have several rigs. */
#ifndef TESTS_FUNC_CLIENT_RIG_H
#define TESTS_FUNC_CLIENT_RIG_H

#include "client/far.h"
#include "tests/lib/donor.h"
#include "tests/lib/wait.h"

#include <stdbool.h>
#include <stdint.h>

#define RIG_DONORS_MAX 4
#define RIG_SLAB (1u << 20)
#define RIG_SLAB_PAGES (RIG_SLAB / STORE_PAGE)
#define RIG_BUFFER_PAGES 2048u
#define RIG_TIMEOUT_MS 2000u

struct rig {
	struct donor_process donors[RIG_DONORS_MAX];
	unsigned donor_count;
	char uris[RIG_DONORS_MAX][64]; /* addresses to which the store connects */
	/* Tests may change it between rig_donors and rig_open. It encrypts if FARPAGE_TEST_ENCRYPT is set. */
	struct far_config config;
	int state_fd; /* set by rig_state() */
	char state_path[32];
	struct store *store;
	struct store_queue *queue;
	uint8_t *bytes; /* RIG_BUFFER_PAGES, registered as `buffer` */
	struct store_buffer *buffer;
};

/*
 * Starts @count donors, each lending @donate ("64M") in slabs of RIG_SLAB. rig_donors_in() also puts each donor into
 * the failure domain of its index in @domains. Bails out when a donor does not start.
 */
void rig_donors(struct rig *rig, unsigned count, const char *donate);
void rig_donors_in(struct rig *rig, unsigned count, const char *donate, const char *const domains[]);
/* Gives the store a state file, between rig_donors and rig_open. */
void rig_state(struct rig *rig);
/* Return the length of the state file, and the bytes allocated for it. */
uint64_t rig_state_length(const struct rig *rig);
uint64_t rig_state_bytes(const struct rig *rig);
/* Opens only the store. Returns the status of far_open(). */
int rig_try(struct rig *rig);
/* Opens store, queue and buffer. Bails out on errors. */
void rig_open(struct rig *rig);
/* Closes all but the donors. With @leave the store stays in the state file for the next rig_open. */
void rig_shut(struct rig *rig, bool leave);
/* Closes the store and ends the donors that still run. Bails out if one does not end well. */
void rig_close(struct rig *rig);

/* Submits one request on @queue and waits asleep for its completion. Returns the status. Bails out after a minute. */
int rig_io(struct rig *rig, struct store_queue *queue, enum store_op op, uint64_t page, uint32_t count, void *data);
int rig_read(struct rig *rig, uint64_t page, uint32_t count, void *data);
int rig_write(struct rig *rig, uint64_t page, uint32_t count, void *data);
/* Waits for the late answers of @queue (store_quiet), which has no open request. Until then their pages count as
   held. */
void rig_rest(struct store_queue *queue);
/* Waits asleep for completions of @queue. Bails out after a minute. */
int rig_wait(struct store_queue *queue, struct store_done *dones, unsigned max);

/* Prints which donors the open reads and writes of the rig's queue wait for, and in which state each donor's process
   is. */
void rig_tell_open(const struct rig *rig);

/* Asks donor @index for its figures and returns them. */
struct far_donor_info rig_figures(const struct rig *rig, unsigned index);
/* Waits until the donors lease @bytes together. Returns false with a diagnostic after some seconds. */
bool rig_wait_leased(const struct rig *rig, uint64_t bytes);
/* Waits until a donor has a free slab to lend. A slab that a client has released is cleared first. */
bool rig_wait_room(const struct rig *rig);

struct store_stats rig_stats(const struct rig *rig);
/* Returns how long the store's control thread had no processor, in total, in ns. */
uint64_t rig_time_lost(const struct rig *rig);
/*
 * Waits until the figure (a uint64_t at @offset in struct store_stats) is between @least and @most. Returns false after
 * a minute.
 */
bool rig_figure_is(const struct rig *rig, size_t offset, uint64_t least, uint64_t most);
#define rig_becomes(rig, figure, wanted) rig_figure_is(rig, offsetof(struct store_stats, figure), wanted, wanted)
#define rig_reaches(rig, figure, least) rig_figure_is(rig, offsetof(struct store_stats, figure), least, UINT64_MAX)

/* Fills a page with contents that depend on @page and @version and are never zero. */
void rig_fill(void *data, uint64_t page, uint64_t version);
bool rig_is(const void *data, uint64_t page, uint64_t version);
bool rig_is_zero(const void *data);
/*
 * Write a page, or a run of pages, with contents as rig_fill() makes them, through the first of the buffer's pages.
 * Return the status.
 */
int rig_put(struct rig *rig, uint64_t page, uint64_t version);
int rig_put_run(struct rig *rig, uint64_t page, uint32_t count, uint64_t version);
/* Reads a page into the buffer's first one. Returns true if it is as rig_put() wrote it, or zero if @version is 0. */
bool rig_has(struct rig *rig, uint64_t page, uint64_t version);
/* Writes pages one by one. Returns the number of pages that were not written. */
unsigned rig_put_each(struct rig *rig, uint64_t first, uint64_t count, uint64_t version);
/* Returns the number of pages for which rig_has() is false with this version. */
unsigned rig_wrong(struct rig *rig, uint64_t first, uint64_t count, uint64_t version);

#endif
