/*
 * handover: passes a donor's leases to the program that replaces the donor, so that no lease and no page is lost.
 *
 * Theory of operation. An operator upgrades a donor while clients hold its slabs. The running program replaces itself
 * by execve(2) (upgrade.h). Its memory is lost then, but two kinds of files stay open: the files with the memory of the
 * slabs (slab.h), and a file that lists sessions and leases. The environment variable FARPAGE_HANDOVER names the
 * descriptor of the list. The new program adopts the files and the leases before it listens. The new program has the
 * old program's incarnation, so clients take it for the same donor. Their connections are broken, so they return, claim
 * their slabs and continue.
 *
 * Only leased and recalled slabs are handed over. A recalled slab is leased again, and the new program recalls it anew
 * if necessary. The new program discards the memory of all other slabs, because no client may use it yet, or any more.
 * A drain continues, but without the deadline of a forced drain.
 *
 * The list is text. Each line is a word and its fields, separated by spaces:
 *
 *   farpage-handover 2
 *   incarnation HEX
 *   slab-bytes BYTES
 *   memory FD FD                                    files of plain and of hugetlb pages; -1 for none
 *   draining 0|1
 *   generation N                                    the highest of all slabs that there ever were
 *   client ID LEFT_NS OWNER ADDRESS                 "." if there is no owner; clients count from 0
 *   about SINCE_NS PID<tab>HOST<tab>USER<tab>COMMAND
 *                                                   of the client above; not in version 1
 *   slab INDEX GENERATION ORDER WARMTH CLIENT HUGE  CLIENT is -1 for a free slab
 *   end
 *
 * The program that reads the list may be newer than the program that wrote it. So every program can read the lists of
 * older programs. A program refuses a list of a newer version than it knows, and the old program continues.
 *
 * Threads. All functions run in the donor's thread.
 */
#ifndef MEMSERVER_HANDOVER_H
#define MEMSERVER_HANDOVER_H

#include "memserver/donor.h"

#define HANDOVER_VARIABLE "FARPAGE_HANDOVER"

struct handover_client {
	uint8_t id[WIRE_ID_SIZE];
	uint64_t left_ns; /* how long the client's leases wait for its return */
	char owner[LEASE_OWNER_SIZE];
	char from[WIRE_ADDRESS_SIZE];
	uint64_t since;          /* as in struct donor_session; 0 in a list of version 1 */
	struct wire_about about; /* empty in a list of version 1 */
};

struct handover_slab {
	uint32_t index;
	int32_t client;          /* index of the client that leases it, or -1 */
	struct lease_slab lease; /* generation, order, warmth */
	bool huge;
};

/* How much room the next program must have for the leases. */
struct handover_extent {
	uint32_t slabs; /* the highest index of a leased slab, plus 1; or 0 */
	uint32_t clients;
};

struct handover {
	uint64_t incarnation, slab_bytes;
	struct slab_files files;
	bool draining;
	uint32_t generation; /* the highest generation of any slab so far */
	struct handover_client *clients;
	struct handover_slab *slabs;
	uint32_t client_count, slab_count;
};

void handover_measure(const struct donor *donor, struct handover_extent *ret_extent);
/*
 * Lists the leases of a running donor in a new file. The file names the descriptors of the donor's slab files, which
 * the caller keeps open for the reader. Returns the file's descriptor (close-on-exec), or -errno.
 */
int handover_write(const struct donor *donor);
/*
 * Reads the list of the previous program. Returns 0; -ENOENT if there is none; or -errno after one logged line. The
 * caller ends with handover_free(), and passes `files` to the donor, which then owns them.
 */
int handover_read(struct handover *ret_handover);
void handover_free(struct handover *handover);
/* Returns 0 if a donor with these settings can adopt the leases, or -EINVAL after one logged line that says why not. */
int handover_check(const struct handover *handover, const struct donor_config *config);
/*
 * Gives the leases to a donor that has just been opened with the inherited files. If a slab cannot be adopted, logs one
 * line, and only the contents of this slab are lost. Returns 0, or -errno after one logged line. After an error, the
 * donor is useless and all pages are lost.
 */
int handover_adopt(const struct handover *handover, struct donor *donor);

#endif
