/*
 * donors_list: follows the donors file (common/donors_file.h) of an open store.
 *
 * Theory of operation. The control thread notices if the file is rewritten in place, if another file is renamed over
 * it, or if a link in its path is replaced (common/file_watch.h). The thread then reads and checks the whole new
 * version. If the version is bad, one log line says why, and the donors stay as they are. Otherwise the store follows
 * the version:
 *
 *   added    The donor gets a place. It is tried every second, like a donor that could not be reached when the store
 *            was opened. It is used once it answers.
 *   removed  The donor is leaving. Its slabs count as recalled (leases.h), so the rebuild thread moves their pages to
 *            other donors. It lends a new slab only if no other donor has a free slab. When its last slab is gone,
 *            its session ends, and it is not tried again. If no other donor takes the slabs, they stay, and one log
 *            line says so.
 *   again    The file names a removed donor again. If the donor has not left yet, it stays. Otherwise it begins anew
 *            in its old place.
 *
 * Another address. If one version of the file removes an address and adds another one of the same donor, the donor
 * leaves under the old address first. The new address is its twin: both have the donor's incarnation. A twin is not
 * used, because a donor has only one session with a client. But the leaving donor is reached at the new address from
 * then on, so its pages survive if the old address is gone. When the old address has been let go, or stays, the twin is
 * tried again.
 *
 * Places. A store with a donors file has FAR_DONORS_MORE places more than donors when it is opened, and at most
 * FAR_DONORS_MAX. A donor keeps its place until the store is closed, because queues and messages refer to places. So
 * the places limit how many different donors a store can have in its lifetime. With a state file, added donors are
 * recorded there, so a process that adopts the store knows them.
 *
 * Names. The resolver may block for seconds, but the control thread must send heartbeats. So a donor that is added
 * later must have a numeric address. Donors that the file names when the store is opened may have names.
 *
 * Threads: the control thread, which may be a near thread of the preload library. Nothing is allocated after
 * donors_list_open().
 */
#ifndef CLIENT_DONORS_LIST_H
#define CLIENT_DONORS_LIST_H

#include "client/far_store.h"

/* Starts to watch the file at the absolute @path, and reads it. If watching or reading fails, this is logged in one
   line, and the store continues with the donors that it has. Returns 0, -ENAMETOOLONG or -ENOMEM. Any thread. */
int donors_list_open(const char *path, struct donors_list **ret_list);
/* Replaces the donors of @config by those that the file named when it was opened, if the file was good. @list may
   be NULL. The addresses are valid until the file is read again. */
void donors_list_first(struct donors_list *list, struct far_config *config);
/* Lets the fabric report changes of the file, with far->list as the user pointer. Returns 0 or -errno. Does nothing
   without a list. */
int donors_list_watch(struct far *far);
/* @list may be NULL. */
void donors_list_close(struct donors_list *list);
uint64_t donors_list_memory(const struct donors_list *list);

/* Must be called when the fabric reports a change. donors_list_tick() acts on it later. */
void donors_list_noticed(struct donors_list *list);
/* Makes the next donors_list_tick() read the file. Called after an adoption, because the store may have other
   donors than the file names. @list may be NULL. */
void donors_list_read_again(struct donors_list *list);
/* Acts on changes of the file, and on leaving donors. The store must be open. Does nothing without a list. */
void donors_list_tick(struct far *far, uint64_t now);
/* Returns the place of another address that leads to the donor which has welcomed us at this one, or -1. */
int donors_list_twin(const struct far *far, unsigned index);
/* Logs that two addresses lead to one donor. */
void donors_list_tell_twin(const struct far *far, unsigned one, unsigned other);
/* Returns true if the donors file does not name the donor any more. */
bool donors_list_is_leaving(const struct far *far, unsigned index);
/* Returns when to call donors_list_tick() next, or UINT64_MAX for never. */
uint64_t donors_list_due(const struct far *far);

#endif
