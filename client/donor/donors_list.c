/* donors_list: see donors_list.h. */
#include "client/donor/donors_list.h"

#include "client/donor/internal.h"
#include "common/clock.h"
#include "common/donors_file.h"
#include "common/file_watch.h"
#include "common/format.h"
#include "common/log.h"
#include "common/uri.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LIST_PERIOD_NS UINT64_C(1000000000) /* how often leaving donors are checked */
/* If no slab of a leaving donor has moved for this long, the user is told that the slabs stay. */
#define LIST_STUCK_NS UINT64_C(5000000000)

_Static_assert(DONORS_FILE_DONORS == FAR_DONORS_MAX, "a file names at most the donors of a store");

struct donors_list {
	struct file_watch watch;
	bool good;                         /* the file was good when it was last read */
	bool changed;                      /* the file must be read */
	uint64_t due;                      /* when to check leaving donors next, or UINT64_MAX if there is none */
	struct donor_set told;             /* leaving donors whose stuck slabs the user was told of */
	uint64_t held[FAR_DONORS_MAX];     /* how many slabs a leaving donor had at the last check */
	uint64_t moved_at[FAR_DONORS_MAX]; /* when that number last changed */
	const char *path;                  /* in `watch` */
	_Atomic uint64_t memory;           /* bytes that were used at most so far */
	struct donors_file file;
};

/* --- The file ------------------------------------------------------------------------------------------------- */

static void watch_tell(const struct donors_list *list, int error)
{
	log_warning("cannot watch %s: %s: donors that are added or removed there are not noticed", list->path,
		    format_errno(error));
}

/* Reads the file. The memory that no file has needed yet is not present. */
static bool file_read(struct donors_list *list)
{
	struct donors_file *file = &list->file;
	const bool good = donors_file_read(list->path, file) == 0;
	const uint64_t unused = sizeof file->text - file->length +
				(DONORS_FILE_DONORS - file->count) * (sizeof *file->uris + sizeof *file->lines);

	if (list->memory < sizeof *list - unused)
		list->memory = sizeof *list - unused;
	return good;
}

int donors_list_open(const char *path, struct donors_list **ret_list)
{
	struct donors_list *list;
	int error;

	if (*path != '/' || strlen(path) >= sizeof list->watch.path)
		return -ENAMETOOLONG;
	list = calloc(1, sizeof *list);
	if (!list)
		return -ENOMEM;
	list->path = list->watch.path;
	list->due = UINT64_MAX;
	error = file_watch_open(&list->watch, path); /* before the file is read, so that no change is missed */
	if (error < 0)
		watch_tell(list, error);
	list->good = file_read(list);
	*ret_list = list;
	return 0;
}

void donors_list_first(struct donors_list *list, struct far_config *config)
{
	if (!list || !list->good)
		return;
	if (list->file.count < config->replicas) {
		list->changed = true; /* version_check() will log why this version is not followed */
		if (config->state_file)
			config->donor_count = 0; /* an adopted store has its own list of donors */
		return;
	}
	config->donors = list->file.uris;
	config->donor_count = list->file.count;
}

int donors_list_watch(struct far *far)
{
	return far->list && far->list->watch.fd >= 0 ? fabric_watch(far->fabric, far->list->watch.fd, far->list) : 0;
}

void donors_list_close(struct donors_list *list)
{
	if (!list)
		return;
	file_watch_close(&list->watch);
	free(list);
}

uint64_t donors_list_memory(const struct donors_list *list)
{
	return list ? list->memory : 0;
}

void donors_list_noticed(struct donors_list *list)
{
	bool changed;
	int error = file_watch_read(&list->watch, &changed);

	list->changed |= changed;
	if (error < 0)
		watch_tell(list, error);
}

void donors_list_read_again(struct donors_list *list)
{
	if (list)
		list->changed = true;
}

/* --- A new version -------------------------------------------------------------------------------------------- */

static int place_of(const struct far *far, const char *uri)
{
	for (unsigned i = 0; i < far->donor_count; i++)
		if (strcmp(far->uris[i], uri) == 0)
			return (int)i;
	return -1;
}

static bool is_named(const struct donors_file *file, const char *uri)
{
	for (unsigned i = 0; i < file->count; i++)
		if (strcmp(file->uris[i], uri) == 0)
			return true;
	return false;
}

static bool is_numeric(const char *text)
{
	struct uri uri;

	return uri_parse(text, 0, &uri) == 0 && uri_is_numeric(&uri);
}

/* Returns true if the store can use the donors in the new version of the file. Otherwise logs why not and returns
   false. */
static bool version_check(const struct far *far)
{
	const struct donors_list *list = far->list;
	const struct donors_file *file = &list->file;
	unsigned places = far->donor_count;

	if (file->count < far->config.replicas) {
		log_error("%s: line %u: %u replicas need as many donors, and only %u are named: name more; until then "
			  "the donors stay as they are",
			  list->path, file->lines[file->count - 1], far->config.replicas, file->count);
		return false;
	}
	for (unsigned i = 0; i < file->count; i++) {
		if (place_of(far, file->uris[i]) >= 0)
			continue;
		if (!is_numeric(file->uris[i])) {
			log_error("%s: line %u: %s: a donor that is added while programs run needs a numeric address, "
				  "like tcp://10.0.0.7: write that; until then the donors stay as they are",
				  list->path, file->lines[i], file->uris[i]);
			return false;
		}
		if (++places > far->donor_places) {
			log_error("%s: line %u: %s would be donor %u, counting removed ones: at most %u are possible "
				  "until a restart; until then the donors stay as they are",
				  list->path, file->lines[i], file->uris[i], places, far->donor_places);
			return false;
		}
	}
	return true;
}

/* Begins to try to reach the donor, which holds nothing of ours. */
static void donor_begin(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];
	const struct comeback_config config = donors_comeback_config(far);

	comeback_absent(&donor->comeback, &config, -ENOTCONN, now);
	donor->away_at = clock_now();
	donor->status = -ENOTCONN;
	donor->told = donor->adopted = donor->added = true;
	donor->gone = donor->twin = false;
	session_drop(&donor->session); /* makes the session LOST, because none has been started */
	far->quiet[index] = 0;
}

/* Tries the donors again that were refused as twins, because a leaving donor stays or has been let go. */
static void twins_begin(struct far *far, uint64_t now)
{
	for (unsigned i = 0; i < far->donor_count; i++)
		if (far->donors[i].twin)
			donor_begin(far, i, now);
}

static void donor_add(struct far *far, const char *uri, uint64_t now)
{
	unsigned index = far->donor_count;

	strcpy(far->uris[index], uri);
	far->donors[index].uri = far->uris[index];
	if (far->state)
		state_donor_add(far->state, uri);
	donor_begin(far, index, now);
	far->leases.config.donor_count = index + 1;
	far->donor_count = index + 1; /* last, because other threads use the donor from now on */
}

static void donor_remove(struct far *far, unsigned index, uint64_t now)
{
	struct donors_list *list = far->list;

	leases_donor_leave(&far->leases, index);
	list->held[index] = far->leases.donors[index].held;
	list->moved_at[index] = list->due = now;
	donor_set_remove(&list->told, index);
	log_warning("donor %s is not in %s any more: its pages are moved to other donors", far->uris[index],
		    list->path);
}

/* The file names a removed donor again. */
static void donor_again(struct far *far, unsigned index, uint64_t now)
{
	leases_donor_stay(&far->leases, index);
	if (far->donors[index].gone) {
		donor_begin(far, index, now);
		return;
	}
	far->donors[index].adopted = true; /* so that the next try uses the address in the file, not a twin's */
	log_warning("donor %s is in %s again: it stays", far->uris[index], far->list->path);
	twins_begin(far, now);
}

static void version_follow(struct far *far, uint64_t now)
{
	const struct donors_file *file = &far->list->file;

	for (unsigned i = 0; i < far->donor_count; i++) {
		const bool leaving = donor_set_has(&far->leases.failure_domains.leaving, i);
		const bool named = is_named(file, far->uris[i]);

		if (!named && !leaving)
			donor_remove(far, i, now);
		if (named && leaving)
			donor_again(far, i, now);
	}
	for (unsigned i = 0; i < file->count; i++)
		if (place_of(far, file->uris[i]) < 0)
			donor_add(far, file->uris[i], now);
}

/* --- Leaving donors ------------------------------------------------------------------------------------------- */

static void donor_let_go(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];

	far->quiet[index] = 0;
	donor->gone = true;
	donor->twin = false;
	donors_incarnation_keep(far, index, 0);
	donor->status = -ENOTCONN;
	session_end(&donor->session);
	session_drop(&donor->session);
	comeback_let_go(&donor->comeback);
	leases_donor_gone(&far->leases, index, now);
	donor->donated = donor->leased = 0;
	donors_round_end(far, donor);
	log_warning("donor %s is let go: it holds nothing of this process any more", donor->uri);
	twins_begin(far, now);
}

/* If no slab of the donor has moved for a while, tells the user, once. */
static void donor_tell_stuck(struct far *far, unsigned index, uint64_t now)
{
	struct donors_list *list = far->list;
	const uint64_t held = far->leases.donors[index].held;

	if (held != list->held[index] || leases_is_moving(&far->leases) || far->leases.donors[index].away)
		list->moved_at[index] = now;
	list->held[index] = held;
	if (donor_set_has(&list->told, index) || now < list->moved_at[index] + LIST_STUCK_NS)
		return;
	donor_set_add(&list->told, index);
	log_warning("donor %s is not in %s any more, but no other donor takes the %" PRIu64
		    " slabs that it holds: they "
		    "stay there until you add donors",
		    far->uris[index], list->path, held);
}

static void leaving_tick(struct far *far, uint64_t now)
{
	struct donors_list *list = far->list;

	leases_leaving_tick(&far->leases, now);
	list->due = UINT64_MAX;
	for (unsigned i = 0; i < far->donor_count; i++) {
		if (!donor_set_has(&far->leases.failure_domains.leaving, i) || far->donors[i].gone)
			continue;
		if (leases_donor_is_empty(&far->leases, i)) {
			donor_let_go(far, i, now);
			donors_carry_out(far,
					 now); /* after each donor, because actions[] has room for one such donor */
			continue;
		}
		donor_tell_stuck(far, i, now);
		list->due = now + LIST_PERIOD_NS;
	}
}

void donors_list_tick(struct far *far, uint64_t now)
{
	struct donors_list *list = far->list;

	if (list && list->changed) {
		list->changed = false;
		list->good = file_read(list);
		if (list->good && version_check(far))
			version_follow(far, now);
	}
	if (list && now >= list->due)
		leaving_tick(far, now);
}

int donors_list_twin(const struct far *far, unsigned index)
{
	const uint64_t incarnation = far->donors[index].session.donor.incarnation;

	for (unsigned i = 0; i < far->donor_count && incarnation; i++)
		if (i != index && far->donors[i].comeback.incarnation == incarnation)
			return (int)i;
	return -1;
}

void donors_list_tell_twin(const struct far *far, unsigned one, unsigned other)
{
	log_error("%s and %s are the same donor: name it once", far->donors[one < other ? one : other].uri,
		  far->donors[one < other ? other : one].uri);
}

bool donors_list_is_leaving(const struct far *far, unsigned index)
{
	if (donor_set_has(&far->leases.failure_domains.leaving, index))
		return true;
	/* During an adoption, the file was read, but is not followed yet. */
	return far->adopting && far->list && far->list->good && !is_named(&far->list->file, far->uris[index]);
}

uint64_t donors_list_due(const struct far *far)
{
	if (!far->list)
		return UINT64_MAX;
	return far->list->changed ? 0 : far->list->due;
}
