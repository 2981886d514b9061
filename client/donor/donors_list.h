/*
 * donors_list: follows the donors file (common/donors_file.h) of an open store.
 *
 * Theory of operation. inotify watches the file's folder, so a file that is written anew and a file that is renamed over
 * the old one are both noticed. The new version is read and checked as a whole. If it is bad, one line says why, and the
 * donors stay as they are. Otherwise:
 *
 *   added    The donor gets a place, and is treated like a donor that could not be reached when the store was opened: it
 *            is tried every second, and used once it answers.
 *   removed  The donor gets a new slab only if no other donor has room. Its slabs count as recalled (leases.h), so the
 *            rebuild thread moves their pages elsewhere. A donor that has no slab any more is let go: its session ends,
 *            and it is not tried again. If no other donor takes the slabs, they stay, and one line says so.
 *   again    A donor that is named again stays, or begins as an added one in its old place.
 *
 * Places. A store with a donors file has FAR_DONORS_MAX places. A donor keeps its place until the store is closed,
 * because queues and messages refer to it. So a store knows at most that many different donors in its life. With a state
 * file, added donors are recorded there, and stay known to the process that adopts the store.
 *
 * Names. The resolver may block for seconds, and this thread sends heartbeats. So a donor that is added later must have
 * a numeric address. Donors that the file names when the store is opened may have names.
 *
 * Threads: the control thread, which may be a near thread. Nothing is allocated after donors_list_open().
 */
#ifndef CLIENT_DONORS_LIST_H
#define CLIENT_DONORS_LIST_H

#include "client/far_store.h"

/* Begins to watch the file at the absolute @path, and reads it. If that fails, this is logged in one line, and the store
   goes on with the donors that it has. Returns 0, -ENAMETOOLONG or -ENOMEM. Any thread. */
int donors_list_open(const char *path, struct donors_list **ret_list);
/* Replaces the donors of @config by those that the file named when it was opened, if the file was good. Takes NULL. The
   addresses are valid until the file is read again. */
void donors_list_first(struct donors_list *list, struct far_config *config);
/* Has the fabric report changes with far->list as the user pointer. Returns 0 or -errno. Does nothing without a list. */
int donors_list_watch(struct far *far);
/* Takes NULL. */
void donors_list_close(struct donors_list *list);
uint64_t donors_list_memory(const struct donors_list *list);

/* Must be called when the fabric reports a change. Takes the change; donors_list_tick() acts on it. */
void donors_list_noticed(struct donors_list *list);
/* Has donors_list_tick() read the file, because the store may have other donors than the file. Takes NULL. */
void donors_list_read_again(struct donors_list *list);
/* Acts on changes of the file, and on donors that are leaving. Does nothing without a list. The store is open. */
void donors_list_tick(struct far *far, uint64_t now);
/* Returns when to call donors_list_tick() next, or UINT64_MAX for never. */
uint64_t donors_list_due(const struct far *far);

#endif
