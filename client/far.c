/*
 * far: opens and closes the far store (far.h), and has the functions of its table of operations that need no queue.
 *
 * Threads: any. far_store.h says which fields threads share.
 */
#include "client/far.h"

#include "client/backup/backup.h"
#include "client/donor/about.h"
#include "client/donor/control.h"
#include "client/donor/donors_list.h"
#include "client/io/far_queue.h"
#include "client/io/far_sealed.h"
#include "client/lease/failure_domains.h"
#include "client/rebuild/rebuild.h"
#include "common/format.h"
#include "common/least.h"
#include "common/log.h"
#include "common/random.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FAR_ALONE_IO_MS 10000u
#define FAR_TIMEOUT_MS 5000u
/* With one copy, a lost donor's pages are lost, so the wait is long. NVMe over fabrics waits as long by default
   (ctrl_loss_tmo). */
#define FAR_ALONE_TIMEOUT_MS 600000u
_Static_assert(FAR_URI_MAX == SESSION_URI_MAX, "the text of a session's route");
_Static_assert(FAR_FAILURE_DOMAIN_SIZE == WIRE_FAILURE_DOMAIN_SIZE, "what a donor says of its domain");

/* --- Buffers: a store's buffer is a fabric's region ----------------------------------------------------------- */

static int far_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer)
{
	struct far *far = (struct far *)store;

	return fabric_register(far->domain, base, length, FABRIC_LOCAL, (struct fabric_region **)ret_buffer);
}

static void far_deregister(struct store *store, struct store_buffer *buffer)
{
	(void)store;
	fabric_deregister((struct fabric_region *)buffer);
}

/* --- Pages ---------------------------------------------------------------------------------------------------- */

static void far_discard(struct store *store, uint64_t page, uint64_t count)
{
	struct far *far = (struct far *)store;

	far_forget(far, page, count);
	far->discards += count;
}

static bool far_same(const struct store *store, uint64_t page, const void *data)
{
	const struct far *far = (const struct far *)store;

	if (chunk_is_untouched(&far->table, page / far->table.pages))
		return integrity_is_zero(data);
	/* A KEPT page that the backup has missed is not stored anywhere, so it must be written again. */
	if (far->backup && backup_ring_is_missed(&far->backup->ring, page) &&
	    integrity_kind(&far->integrity, page) == INTEGRITY_IS_KEPT)
		return false;
	if (far->config.encrypt)
		return far_sealed_same((struct far *)store, page, data);
	return integrity_same(&far->integrity, page, data);
}

/* --- Figures -------------------------------------------------------------------------------------------------- */

/* Lazily mapped arrays count by whole chunks, and one chunk more than was ever used counts, because the next chunk's
   part becomes present at once (leases_wants_start()). */
static uint64_t far_memory(const struct store *store)
{
	const struct far *far = (const struct far *)store;
	const uint64_t chunks = least(atomic_load(&far->table.touched) + 1, far->table.count);
	/* The parts of *far for donors that the store cannot have are never written, so they need no memory. */
	const uint64_t unused =
	    (FAR_DONORS_MAX - far->donor_places) *
	    (sizeof *far->leases.donors + sizeof *far->mailbox.donors + sizeof *far->leases.failure_domains.names);

	return sizeof *far - unused + far->donor_count * (sizeof *far->donors + FAR_URI_MAX + 2 * sizeof(uint64_t)) +
	       donors_list_memory(far->list) + chunk_table_memory(&far->table) +
	       integrity_memory(&far->integrity, chunks * far->table.pages) + warmth_memory(&far->warmth) +
	       (far->config.encrypt ? FAR_SEALERS * seal_memory() + seal_library_memory() : 0) + far->queue_memory;
}

/* Returns how many bytes of slabs could still be leased. While a donor is lost, one replica is enough for a new
   chunk. */
static uint64_t far_available(struct far *far)
{
	struct failure_domains_share shares[FAR_DONORS_MAX];
	uint64_t slab_bytes = far->table.pages * STORE_PAGE;
	unsigned replicas = far->config.replicas;
	uint64_t chunks;

	pthread_mutex_lock(&far->attach); /* guards the names of failure domains */
	for (unsigned i = 0; i < far->donor_count; i++) {
		uint64_t donated = far->donors[i].donated, leased = far->donors[i].leased;

		shares[i] =
		    (struct failure_domains_share){.failure_domain = far->donors[i].failure_domain,
						   .slabs = donated > leased ? (donated - leased) / slab_bytes : 0};
		if (far->donors[i].status < 0 && !far->donors[i].gone)
			replicas = 1;
	}
	chunks = failure_domains_chunks(shares, far->donor_count, replicas);
	pthread_mutex_unlock(&far->attach);
	return chunks * replicas * slab_bytes;
}

static void far_stats(const struct store *store, struct store_stats *ret_stats)
{
	struct far *far = (struct far *)store; /* not const, for the lock */
	struct store_stats stats = {
	    .discards = far->discards, .lost_pages = far->lost_pages, .encrypted = far->config.encrypt};
	struct far_counters counters = {0};
	struct far_queue *queue;

	pthread_mutex_lock(&far->lock);
	counters.reads += far->closed.reads;
	counters.writes += far->closed.writes;
	counters.zero_reads += far->closed.zero_reads;
	counters.checksum_errors += far->closed.checksum_errors;
	counters.rebuilt += far->closed.rebuilt;
	counters.repaired += far->closed.repaired;
	counters.scrubbed += far->closed.scrubbed;
	counters.hedges += far->closed.hedges;
	counters.hedges_won += far->closed.hedges_won;
	counters.backup_reads += far->closed.backup_reads;
	counters.backup_writes += far->closed.backup_writes;
	counters.returned += far->closed.returned;
	LIST_FOREACH(queue, &far->queues, link)
		far_queue_count(queue, &counters);
	pthread_mutex_unlock(&far->lock);
	stats.reads = counters.reads;
	stats.writes = counters.writes;
	stats.zero_reads = counters.zero_reads;
	stats.checksum_errors = counters.checksum_errors;
	stats.rebuilt_pages = counters.rebuilt;
	stats.repaired_pages = counters.repaired;
	stats.scrubbed_pages = counters.scrubbed;
	stats.hedges = counters.hedges;
	stats.hedges_won = counters.hedges_won;
	stats.backup_reads = counters.backup_reads;
	stats.backup_writes = counters.backup_writes;
	stats.returned_pages = counters.returned;
	for (uint64_t i = 0; i < far->table.count; i++) {
		stats.pages_live += chunk_pages_held(&far->table, i);
		stats.slabs_lacking += far->config.replicas > 1 ? chunk_replicas_missing(&far->table, i) : 0;
	}
	stats.donors_lost = true;
	for (unsigned i = 0; i < far->donor_count; i++) {
		stats.bytes_leased += far->leased_here[i];
		stats.donors_clear |= far->donors[i].clearing && far->donors[i].round & 1;
		stats.donors_lost &= far->donors[i].status < 0 || far->donors[i].gone;
	}
	stats.bytes_available = far_available(far);
	stats.kept_pages = far->integrity.kept;
	if (stats.lost_pages)
		stats.missing_pages = integrity_count_lost(&far->integrity);
	if (far->backup) {
		uint64_t all = stats.pages_live + stats.kept_pages;

		stats.backup_behind = backup_behind(far->backup);
		stats.backup_pages = all > stats.backup_behind ? all - stats.backup_behind : 0;
	}
	*ret_stats = stats;
}

unsigned far_donors(const struct store *store, struct far_donor_info *donors, unsigned max)
{
	struct far *far = (struct far *)store; /* not const, for the lock */
	unsigned count = 0;

	for (unsigned i = 0; i < far->donor_count; i++) {
		const struct far_donor *donor = &far->donors[i];
		struct far_donor_info *info;

		if (donor->gone || count++ >= max)
			continue;
		info = &donors[count - 1];
		*info = (struct far_donor_info){
		    .uri = donor->uri,
		    .status = donor->status,
		    .away = donor->status == 0 && !(donor->round & 1),
		    .donated = donor->donated,
		    .leased = donor->leased,
		    .slab_bytes = donor->slab_bytes,
		    .clients = donor->clients,
		    .leased_here = far->leased_here[i],
		};
		pthread_mutex_lock(&far->attach);
		memcpy(info->via, donor->via, sizeof donor->via);
		memcpy(info->failure_domain, donor->failure_domain, sizeof donor->failure_domain);
		pthread_mutex_unlock(&far->attach);
	}
	return count;
}

/* --- Opening and closing -------------------------------------------------------------------------------------- */

static void places_free(struct far *far)
{
	free(far->uris);
	free(far->donors);
	free((void *)far->leased_here);
	free(far->quiet);
}

static void far_free(struct far *far)
{
	leases_recalls_close(&far->leases);
	far_sealers_close(far);
	chunk_table_close(&far->table);
	integrity_close(&far->integrity);
	warmth_close(&far->warmth);
	state_close(far->state, !far->leave);
	backup_close(far->backup, far->leave);
	free(far->backup_path);
	rebuild_close(far->rebuild);
	fabric_domain_close(far->domain);
	donors_list_close(far->list);
	places_free(far);
	mailbox_close(&far->mailbox);
	pthread_mutex_destroy(&far->attach);
	pthread_mutex_destroy(&far->lock);
	/* Clears the memory, because it contains the key. */
	explicit_bzero(far, sizeof *far);
	free(far);
}

static void far_close(struct store *store)
{
	struct far *far = (struct far *)store;

	rebuild_stop(far);
	control_stop(far);
	backup_stop(far->backup);
	far_free(far);
}

void far_leave(struct store *store)
{
	struct far *far = (struct far *)store;

	assert(far->state);
	far->leave = true;
	far_close(store);
}

static const struct store_ops far_ops = {
    .register_buffer = far_register,
    .deregister_buffer = far_deregister,
    .queue_open = far_queue_open,
    .queue_close = far_queue_close,
    .submit = far_queue_submit,
    .poll = far_queue_poll,
    .queue_fd = far_queue_fd,
    .arm = far_queue_arm,
    .quiet = far_queue_quiet,
    .discard = far_discard,
    .same = far_same,
    .stats = far_stats,
    .memory = far_memory,
    .close = far_close,
};

int far_check(const struct far_config *config)
{
	if (!config->donor_count) {
		log_error("no donor given: name each with --donor tcp://HOST:PORT");
		return -EINVAL;
	}
	if (config->donor_count > FAR_DONORS_MAX) {
		log_error("%u donors given: at most %u can be used", config->donor_count, FAR_DONORS_MAX);
		return -EINVAL;
	}
	for (unsigned i = 1; i < config->donor_count; i++) {
		for (unsigned j = 0; j < i; j++) {
			if (strcmp(config->donors[i], config->donors[j]) != 0)
				continue;
			log_error("donor %s is named twice: name each once", config->donors[i]);
			return -EINVAL;
		}
	}
	if (config->backup && strlen(config->backup) >= FAR_BACKUP_MAX) {
		log_error("the backup's name is longer than %u bytes", FAR_BACKUP_MAX - 1);
		return -EINVAL;
	}
	if (!config->replicas || config->replicas > FAR_REPLICAS_MAX || config->replicas > config->donor_count) {
		log_error("%u replicas cannot be kept on %u donors: 1 to %u, and no more than donors", config->replicas,
			  config->donor_count, FAR_REPLICAS_MAX);
		return -EINVAL;
	}
	return config->encrypt ? seal_load() : 0;
}

/*
 * Returns how long an operation may take before its connection is made anew. With replicas, another replica is asked
 * next, so the fabric's default is right. With one copy, only the same donor can be asked again, and heartbeats show if
 * it is silent. So with one copy an operation may take longer: a slow connection does less harm than a new connection.
 * A machine without free memory may be unable to make a new connection.
 */
static unsigned io_ms_of(const struct far_config *config, unsigned usual_ms)
{
	unsigned half = config->timeout_ms / 2;

	if (config->replicas > 1 || half < usual_ms)
		return usual_ms;
	return half < FAR_ALONE_IO_MS ? half : FAR_ALONE_IO_MS;
}

unsigned far_timeout_ms(const struct far_config *config)
{
	if (config->timeout_ms)
		return config->timeout_ms;
	return config->replicas > 1 || config->backup ? FAR_TIMEOUT_MS : FAR_ALONE_TIMEOUT_MS;
}

unsigned far_last_timeout_ms(const struct far_config *config)
{
	const unsigned usual_ms = far_timeout_ms(config);
	unsigned last_ms = config->last_timeout_ms;

	if (!last_ms)
		last_ms = config->timeout_ms || config->backup ? usual_ms : FAR_ALONE_TIMEOUT_MS;
	return last_ms > usual_ms ? last_ms : usual_ms;
}

static int far_allocate(const struct far_config *config, struct far **ret_far)
{
	const struct fabric_config usual = FABRIC_CONFIG_DEFAULT;
	struct far *far = calloc(1, sizeof *far);
	int error;

	if (!far)
		return -ENOMEM;
	far->base.ops = &far_ops;
	far->config = *config;
	if (!far->config.fabric.connect_ms)
		far->config.fabric.connect_ms = usual.connect_ms;
	far->config.last_timeout_ms =
	    far_last_timeout_ms(config); /* first: it depends on whether timeout_ms is given */
	far->config.timeout_ms = far_timeout_ms(config);
	if (!far->config.fabric.io_ms)
		far->config.fabric.io_ms = io_ms_of(&far->config, usual.io_ms);
	if (far->config.fabric.io_ms > far->config.timeout_ms)
		far->config.fabric.io_ms = far->config.timeout_ms;
	if (config->key) {
		memcpy(far->key, config->key, AUTH_KEY_SIZE);
		far->config.key = far->key;
	}
	about_find(config->user, config->command, &far->about);
	random_secret(far->id, sizeof far->id);
	error = mailbox_open(&far->mailbox);
	if (error < 0) {
		free(far);
		return error;
	}
	pthread_mutex_init(&far->attach, NULL);
	pthread_mutex_init(&far->lock, NULL);
	LIST_INIT(&far->queues);
	if (config->backup) {
		far->backup_path = strdup(config->backup);
		if (!far->backup_path) {
			far_free(far);
			return -ENOMEM;
		}
	}
	*ret_far = far;
	return 0;
}

/* Makes the donors' places, and names the first @count donors. May be called again. Returns 0 or -ENOMEM. */
static int far_name_donors(struct far *far, const char *const uris[], unsigned count)
{
	far->donor_places = far->list ? count + FAR_DONORS_MORE : count;
	if (far->donor_places > FAR_DONORS_MAX)
		far->donor_places = FAR_DONORS_MAX;
	places_free(far);
	far->donors = calloc(far->donor_places, sizeof *far->donors);
	far->uris = calloc(far->donor_places, sizeof *far->uris);
	far->leased_here = calloc(far->donor_places, sizeof *far->leased_here);
	far->quiet = calloc(far->donor_places, sizeof *far->quiet);
	if (far->donor_places && (!far->donors || !far->uris || !far->leased_here || !far->quiet))
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		format_text(far->uris[i], sizeof far->uris[i], "%s", uris[i]);
		far->donors[i].uri = far->uris[i];
	}
	far->donor_count = far->config.donor_count = count;
	return 0;
}

/* Uses the donors of the adopted store, which may differ from those of the configuration. */
static int far_name_adopted(struct far *far)
{
	const char *uris[FAR_DONORS_MAX];
	unsigned count = state_donor_count(far->state), places = state_donor_places(far->state);
	int error;

	for (unsigned i = 0; i < count; i++)
		uris[i] = state_uri(far->state, i);
	error = far_name_donors(far, uris, count);
	/* The file of an older version has fewer places. */
	far->donor_places = far->donor_places < places ? far->donor_places : places;
	return error;
}

/* Opens the state file, and adopts the store in it, if there is one. If opening fails later, that store stays in
   the file. */
static int far_open_state(struct far *far, const struct far_config *config)
{
	int error = state_open(config->state_file, &far->state);

	if (error < 0)
		return error;
	far->leave = far->adopted = !state_is_new(far->state);
	if (!far->leave)
		return 0;
	error = state_adopt(far->state, config);
	if (error < 0)
		return error;
	memcpy(far->id, state_header(far->state)->id, WIRE_ID_SIZE);
	return far->list ? far_name_adopted(far) : 0;
}

/* Starts the parts that need to know the size of the store. */
static int far_start(struct far *far)
{
	int error = 0;

	if (far->backup_path)
		error = backup_open(far, &far->backup);
	if (error == 0)
		error = backup_start(far->backup);
	if (error == 0 && far->config.encrypt)
		error = far_sealers_open(far);
	return error < 0 ? error : rebuild_start(far);
}

static int far_open_donors(struct far *far, const struct far_config *config)
{
	struct far_config found = *config;
	int error = 0;

	if (config->donors_file) {
		error = donors_list_open(config->donors_file, &far->list);
		if (error < 0)
			return error;
		donors_list_first(far->list, &found);
		/* If the file names too few donors, the count is 0. An adopted store then uses its own donors. */
		if (found.donor_count || !found.state_file)
			error = far_check(&found);
	}
	return error < 0 ? error : far_name_donors(far, found.donors, found.donor_count);
}

int far_open(const struct far_config *config, struct store **ret_store)
{
	struct far *far;
	int error = config->donors_file ? 0 : far_check(config);

	if (error < 0)
		return error;
	error = far_allocate(config, &far);
	if (error < 0)
		return error;
	error = far_open_donors(far, config);
	if (error == 0 && config->state_file)
		error = far_open_state(far, config);
	if (error == 0 && !far->donor_count)
		error = far_check(config);
	if (error < 0)
		goto free_far;
	error = fabric_domain_open(&far->domain);
	if (error < 0)
		goto free_far;
	/* The rebuild thread is needed only with several donors, a scrub or a backup. */
	if (far->donor_count > 1 || far->list || config->scrub_rate || config->backup)
		error = rebuild_open(far, &far->rebuild);
	if (error < 0)
		goto free_far;
	error = control_start(far);
	if (error < 0)
		goto free_far;
	error = far_start(far);
	if (error < 0) {
		control_stop(far);
		backup_stop(far->backup);
		goto free_far;
	}
	far->leave = false;
	*ret_store = &far->base;
	return 0;

free_far:
	far_free(far);
	return error;
}
