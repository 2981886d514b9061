/*
 * rig: a far store over real donors, and requests that are waited for. A test may have several.
 */
#ifndef TESTS_FUNC_CLIENT_RIG_H
#define TESTS_FUNC_CLIENT_RIG_H

#include "client/far.h"
#include "tests/func/memserver/daemon.h"

#include <stdbool.h>
#include <stdint.h>

#define RIG_DONORS_MAX 4
#define RIG_SLAB (1u << 20)
#define RIG_SLAB_PAGES (RIG_SLAB / STORE_PAGE)
#define RIG_BUFFER_PAGES 2048u
#define RIG_TIMEOUT_MS 2000u

struct rig {
	struct daemon donors[RIG_DONORS_MAX];
	unsigned donor_count;
	char uris[RIG_DONORS_MAX][80]; /* as the store is to use them */
	struct far_config config; /* may be changed between rig_donors and rig_open; encrypts if the environment has
				     FARPAGE_TEST_ENCRYPT */
	int state_fd;             /* rig_state()'s */
	char state_path[32];
	struct store *store;
	struct store_queue *queue;
	uint8_t *bytes; /* RIG_BUFFER_PAGES, registered as `buffer` */
	struct store_buffer *buffer;
};

/* Starts @count donors, each lending @donate ("64M") in slabs of RIG_SLAB. Bails out when one does not start. The same,
   each in the failure domain of its name. */
void rig_donors(struct rig *rig, unsigned count, const char *donate);
void rig_donors_in(struct rig *rig, unsigned count, const char *donate, const char *const domains[]);
/* Gives the store a state file, between rig_donors and rig_open. */
void rig_state(struct rig *rig);
/* Its length, and the bytes it takes. */
uint64_t rig_state_length(const struct rig *rig);
uint64_t rig_state_bytes(const struct rig *rig);
/* Opens the store alone: what far_open says. */
int rig_try(struct rig *rig, const char *scheme);
/* Opens store, queue and buffer; bails out when it cannot. @scheme: "tcp" or "fault+tcp". */
void rig_open(struct rig *rig, const char *scheme);
/* Closes what is open but the donors; or leaves it to the next rig_open, with the state file. */
void rig_shut(struct rig *rig, bool leave);
/* Starts a donor that has ended on the address it had; false: it cannot be had. */
bool rig_donor_again(struct rig *rig, unsigned index, const char *const *arguments);
/* Closes what is open and stops donors that still run. */
void rig_close(struct rig *rig);

/* Submits one request on @queue and waits, asleep, for its completion: its status. Bails out after a minute. */
int rig_io(struct rig *rig, struct store_queue *queue, enum store_op op, uint64_t page, uint32_t count, void *data);
int rig_read(struct rig *rig, uint64_t page, uint32_t count, void *data);
int rig_write(struct rig *rig, uint64_t page, uint32_t count, void *data);
/* Nothing is asked for any more: waits for late answers (store_quiet), until which their pages count as held. */
void rig_rest(const struct rig *rig);
/* Waits, asleep, for completions of @queue. Bails out after a minute. */
int rig_wait(struct store_queue *queue, struct store_done *dones, unsigned max);

/* What donor @index says of itself, asked anew. */
struct far_donor_info rig_figures(const struct rig *rig, unsigned index);
/* Waits until the donors lease @bytes together; false after some seconds, with a diagnostic. */
bool rig_wait_leased(const struct rig *rig, uint64_t bytes);

struct store_stats rig_stats(const struct rig *rig);
/* Until the figure (a uint64_t of struct store_stats, at @offset) is @least to @most: whether it is, within a minute.
 */
bool rig_figure_is(const struct rig *rig, size_t offset, uint64_t least, uint64_t most);
/* All of it, whatever signals come. */
void rig_sleep_ms(unsigned ms);

/* A page's contents that depend on @page and @version, never zero. */
void rig_fill(void *data, uint64_t page, uint64_t version);
bool rig_is(const void *data, uint64_t page, uint64_t version);
bool rig_is_zero(const void *data);

#endif
