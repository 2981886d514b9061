/*
 * fabric_faults: the schedule that "fault+SCHEME://" connections follow. For tests.
 *
 * Theory of operation. Faults are injected into the reads and writes that this side posts on such a connection. To this
 * side they look like a slow, lossy or dying peer. An operation is
 *     delayed       its answer, and those behind it, come later.
 *     dropped       it is not sent, and no operation behind it is answered. After io_ms the connection ends with
 *                   -ETIMEDOUT.
 *     corrupted     one bit of the data flips, in the reader's buffer (read) or the peer's memory (write). The answer
 *                   reports success.
 *     disconnected  it is not sent. The connection ends with -ECONNRESET, and takes everything in flight with it.
 *
 * Faults hit operations at random, or by number. The seed makes a history repeatable. Operations are numbered from 1,
 * in the order they are posted, over all connections that share the schedule.
 *
 * Threads: several fabrics may share a schedule. After fabric_open() its settings are only read, and its counters are
 * only added to, atomically. If several threads post, the order of their operations' numbers is undefined.
 */
#ifndef FARPAGE_FABRIC_FAULTS_H
#define FARPAGE_FABRIC_FAULTS_H

#include <stdint.h>

/* If all fields are zero, there are no faults. The "_at" fields are operation numbers, or 0 for never. Chances are per
   million operations. */
struct fabric_faults {
	uint64_t seed;
	uint32_t delay_chance, drop_chance, corrupt_chance, disconnect_chance;
	uint32_t delay_min_us, delay_max_us; /* delays are uniformly distributed between these */
	uint64_t delay_at, drop_at, corrupt_at, disconnect_at;
	uint64_t refuse_connects; /* this many first connects end with -ECONNREFUSED */

	/* Written by fabric/. Read them with __atomic_load_n while fabrics use the schedule. */
	struct {
		uint64_t connects, operations, delayed, dropped, corrupted, disconnected;
	} seen;
};

#endif
