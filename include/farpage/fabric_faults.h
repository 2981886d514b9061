/*
 * fabric_faults: the schedule that "fault+SCHEME://" connections follow, for tests.
 *
 * Theory of operation. Faults are laid over the reads and writes that this side posts on such a connection: what a
 * slow, lossy or dying far side looks like to the one who asked. An operation is
 *     delayed       its answer, and those behind it, come later
 *     dropped       never sent and never answered: nothing behind it is answered either, and after io_ms the
 *                   connection ends with -ETIMEDOUT
 *     corrupted     one bit of the data flips: of a read in the reader's buffer, of a write in the peer's memory;
 *                   its answer says success
 *     disconnected  not sent; the connection ends with -ECONNRESET and takes everything in flight with it
 * by chance (from the seed, so that a history replays), or by its number. Operations are numbered from 1 over all
 * connections that share the schedule, in the order they are posted.
 *
 * Threads: a schedule may be shared by several fabrics; after fabric_open() its settings are only read and its
 * counters only added to, atomically. With several threads posting, which operation gets a number is theirs to race.
 */
#ifndef FARPAGE_FABRIC_FAULTS_H
#define FARPAGE_FABRIC_FAULTS_H

#include <stdint.h>

/* All zero: no faults. The "_at" fields are operation numbers, 0 for never; chances are per million operations. */
struct fabric_faults {
	uint64_t seed;
	uint32_t delay_chance, drop_chance, corrupt_chance, disconnect_chance;
	uint32_t delay_min_us, delay_max_us; /* a delay is uniform between them */
	uint64_t delay_at, drop_at, corrupt_at, disconnect_at;
	uint64_t refuse_connects; /* this many first connects end with -ECONNREFUSED */

	/* Written by fabric/: read them with __atomic_load_n while fabrics use the schedule. */
	struct {
		uint64_t connects, operations, delayed, dropped, corrupted, disconnected;
	} seen;
};

#endif
