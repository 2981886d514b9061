/* flips: see flips.h. */
#include "tests/func/client/flips.h"

#include "common/random.h"
#include "fabric/backend.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FLIPS_MAX 64u

int __real_fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);
int __wrap_fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);
int __real_fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max);
int __wrap_fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max);
void __real_fabric_disconnect(struct fabric_conn *conn);
void __wrap_fabric_disconnect(struct fabric_conn *conn);

/* An operation in flight with a bit to flip. */
struct flip {
	struct fabric_conn *conn; /* NULL: not in use */
	uint64_t cookie, bit;
	uint8_t *bytes;             /* the reader's buffer, or the copy of what is written */
	struct fabric_region *copy; /* the region of a write's copy; NULL for a read */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint64_t left; /* a bit of the `left`-th operation from now flips; 0 for none */
	uint64_t per_million;
	struct random_state random;
	struct flip flips[FLIPS_MAX];
} state;

void flips_at(uint64_t number)
{
	pthread_mutex_lock(&lock);
	state.left = number;
	random_seed(&state.random, number);
	pthread_mutex_unlock(&lock);
}

void flips_often(uint64_t per_million)
{
	pthread_mutex_lock(&lock);
	state.per_million = per_million;
	random_seed(&state.random, 1);
	pthread_mutex_unlock(&lock);
}

static bool flip_is_due(void)
{
	bool numbered = state.left && --state.left == 0;

	return numbered || (state.per_million && random_below(&state.random, 1000000) < state.per_million);
}

static void flip_bit(const struct flip *flip)
{
	flip->bytes[flip->bit / 8] ^= (uint8_t)(1u << flip->bit % 8);
}

/* Returns the flip of an operation in flight. If @conn is NULL, returns an unused flip. Returns NULL if there is
   none. */
static struct flip *flip_find(const struct fabric_conn *conn, uint64_t cookie)
{
	for (unsigned i = 0; i < FLIPS_MAX; i++)
		if (state.flips[i].conn == conn && (!conn || state.flips[i].cookie == cookie))
			return &state.flips[i];
	return NULL;
}

/* Makes @op write a copy with a wrong bit. */
static void flip_write(struct flip *flip, struct fabric_op *op)
{
	flip->bytes = malloc(op->length);
	if (!flip->bytes || fabric_register(flip->conn->domain, flip->bytes, op->length, FABRIC_LOCAL, &flip->copy) < 0)
		abort();
	memcpy(flip->bytes, op->local, op->length);
	flip_bit(flip);
	op->local = flip->bytes;
	op->region = flip->copy;
}

static struct flip *flip_begin(struct fabric_conn *conn, struct fabric_op *op)
{
	struct flip *flip = flip_find(NULL, 0);

	if (!flip)
		abort();
	*flip = (struct flip){.conn = conn,
			      .cookie = op->cookie,
			      .bit = random_below(&state.random, op->length * 8ull),
			      .bytes = op->local};
	if (op->kind == FABRIC_WRITE)
		flip_write(flip, op);
	return flip;
}

static void flip_end(struct flip *flip)
{
	if (flip->copy) {
		fabric_deregister(flip->copy);
		free(flip->bytes);
	}
	*flip = (struct flip){0};
}

static int post_one(struct fabric_conn *conn, struct fabric_op op)
{
	struct flip *flip;
	int status;

	pthread_mutex_lock(&lock);
	flip = flip_is_due() ? flip_begin(conn, &op) : NULL;
	status = __real_fabric_post(conn, &op, 1);
	if (flip && status != 1)
		flip_end(flip);
	pthread_mutex_unlock(&lock);
	return status;
}

int __wrap_fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count)
{
	unsigned taken = 0;
	int status = 1;

	while (taken < count && status == 1) {
		status = post_one(conn, ops[taken]);
		taken += status == 1;
	}
	return taken ? (int)taken : status;
}

int __wrap_fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max)
{
	int count = __real_fabric_poll(fabric, events, max);

	pthread_mutex_lock(&lock);
	for (int i = 0; i < count; i++) {
		struct flip *flip = events[i].kind == FABRIC_DONE ? flip_find(events[i].conn, events[i].cookie) : NULL;

		if (flip && !flip->copy && events[i].status == 0)
			flip_bit(flip);
		if (flip)
			flip_end(flip);
	}
	pthread_mutex_unlock(&lock);
	return count;
}

/* Forgets the operations in flight, which are not answered any more. */
void __wrap_fabric_disconnect(struct fabric_conn *conn)
{
	__real_fabric_disconnect(conn);
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; conn && i < FLIPS_MAX; i++)
		if (state.flips[i].conn == conn)
			flip_end(&state.flips[i]);
	pthread_mutex_unlock(&lock);
}
