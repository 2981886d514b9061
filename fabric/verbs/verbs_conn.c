/* verbs_conn: a connection's state, and the lists of connections, see verbs.h. */
#include "common/clock.h"
#include "common/log.h"
#include "fabric/verbs/verbs.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

static const char *const state_names[] = {
    [VERBS_STATE_RESOLVING] = "resolving",   [VERBS_STATE_ROUTING] = "routing",
    [VERBS_STATE_CONNECTING] = "connecting", [VERBS_STATE_REQUESTED] = "requested",
    [VERBS_STATE_ACCEPTING] = "accepting",   [VERBS_STATE_ESTABLISHED] = "established",
    [VERBS_STATE_ENDING] = "ending",         [VERBS_STATE_ENDED] = "ended",
};
_Static_assert(sizeof state_names / sizeof *state_names == VERBS_STATE_COUNT, "a name for each");

/* The states that may follow each state, as a bit mask. */
#define TO(state) (1u << VERBS_STATE_##state)
static const unsigned state_moves[VERBS_STATE_COUNT] = {
    [VERBS_STATE_RESOLVING] = TO(RESOLVING) | TO(ROUTING) | TO(ENDING) | TO(ENDED),
    [VERBS_STATE_ROUTING] = TO(RESOLVING) | TO(CONNECTING) | TO(ENDING) | TO(ENDED),
    [VERBS_STATE_CONNECTING] = TO(RESOLVING) | TO(ESTABLISHED) | TO(ENDING) | TO(ENDED),
    [VERBS_STATE_REQUESTED] = TO(ACCEPTING) | TO(ENDING) | TO(ENDED),
    [VERBS_STATE_ACCEPTING] = TO(ESTABLISHED) | TO(ENDING) | TO(ENDED),
    [VERBS_STATE_ESTABLISHED] = TO(ENDING) | TO(ENDED),
    [VERBS_STATE_ENDING] = TO(ENDED),
    [VERBS_STATE_ENDED] = TO(ENDED),
};

void verbs_state_set(struct verbs_conn *conn, enum verbs_state state)
{
	assert(state_moves[conn->state] & 1u << state);
	log_debug("%s: %s -> %s", conn->base.peer, state_names[conn->state], state_names[state]);
	if (conn->state == VERBS_STATE_REQUESTED)
		conn->verbs->arriving--;
	conn->state = state;
}

void verbs_activate(struct verbs_conn *conn)
{
	conn->idle = 0;
	if (conn->active)
		return;
	conn->active = true;
	conn->verbs->ready = true;
	conn->verbs->active_count++;
	TAILQ_INSERT_TAIL(&conn->verbs->active, conn, active_link);
}

void verbs_deactivate(struct verbs_conn *conn)
{
	if (!conn->active)
		return;
	conn->active = false;
	conn->verbs->active_count--;
	TAILQ_REMOVE(&conn->verbs->active, conn, active_link);
}

struct verbs_conn *verbs_conn_new(struct verbs *verbs, enum verbs_state state)
{
	struct verbs_conn *conn = calloc(1, sizeof *conn);

	if (!conn)
		return NULL;
	conn->base.backend = &verbs_backend;
	conn->base.fabric = verbs->fabric;
	conn->verbs = verbs;
	conn->state = state;
	conn->deadline = clock_now() + fabric_get_config(verbs->fabric)->connect_ms * 1000000ull;
	return conn;
}

void verbs_conn_list(struct verbs_conn *conn)
{
	TAILQ_INSERT_TAIL(&conn->verbs->conns, conn, link);
}

void verbs_conn_free(struct verbs_conn *conn)
{
	if (conn->memory)
		munmap(conn->memory, conn->memory_size);
	free(conn);
}
