/* handover: see handover.h. */
#include "memserver/handover.h"

#include "common/clock.h"
#include "common/events.h"
#include "common/log.h"
#include "common/size.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VERSION 2u
#define NOBODY (-1)

/* --- Writing --------------------------------------------------------------------------------------------- */

static uint64_t time_left(const struct lease_session *session, uint64_t now)
{
	const uint64_t gone = session->state == LEASE_SESSION_GRACE ? now - session->vanished_at : 0;

	return gone < session->grace_ns ? session->grace_ns - gone : 0;
}

static void client_write(FILE *file, const struct donor *donor, uint32_t session, uint64_t now)
{
	const struct lease_session *s = &donor->book->sessions[session];
	const struct wire_about *about = &donor->sessions[session].about;

	fprintf(file, "client ");
	for (unsigned i = 0; i < WIRE_ID_SIZE; i++)
		fprintf(file, "%02x", s->id[i]);
	fprintf(file, " %" PRIu64 " %s %s\n", time_left(s, now), *s->owner ? s->owner : ".",
		donor->sessions[session].from);
	fprintf(file, "about %" PRIu64 " %u\t%s\t%s\t%s\n", donor->sessions[session].since, about->pid, about->host,
		about->user, about->command);
}

/* Writes the clients that lease slabs. ret_clients[session] is the number of the session's client. */
static void clients_write(FILE *file, const struct donor *donor, int32_t *ret_clients)
{
	const uint64_t now = donor_now(donor);
	int32_t count = 0;

	for (uint32_t i = 0; i < donor->config.limits.sessions; i++) {
		ret_clients[i] = NOBODY;
		if (donor->book->sessions[i].state == LEASE_SESSION_FREE || !donor->book->sessions[i].slabs)
			continue;
		client_write(file, donor, i, now);
		ret_clients[i] = count++;
	}
}

static void slabs_write(FILE *file, const struct donor *donor, const int32_t *clients)
{
	for (uint32_t i = 0; i < donor->config.limits.slabs; i++) {
		const struct lease_slab *s = &donor->book->slabs[i];
		const bool held = lease_slab_is_held(s);

		if (s->generation)
			fprintf(file, "slab %u %u %" PRIu64 " %u %d %d\n", i, s->generation, s->order, s->warmth,
				held ? clients[s->session] : NOBODY, held && slab_is_huge(donor->worker, i));
	}
}

void handover_measure(const struct donor *donor, struct handover_extent *ret_extent)
{
	*ret_extent = (struct handover_extent){0};
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++)
		ret_extent->clients += donor->book->sessions[i].slabs > 0;
	for (uint32_t i = 0; i < donor->config.limits.slabs; i++)
		if (lease_slab_is_held(&donor->book->slabs[i]))
			ret_extent->slabs = i + 1;
}

static uint32_t highest_generation(const struct donor *donor)
{
	uint32_t highest = donor->book->generation;

	for (uint32_t i = 0; i < donor->config.limits.slabs; i++)
		if (donor->book->slabs[i].generation > highest)
			highest = donor->book->slabs[i].generation;
	return highest;
}

static int list_write(FILE *file, const struct donor *donor)
{
	const struct slab_files files = slab_files(donor->worker);
	int32_t *clients = calloc(donor->config.limits.sessions, sizeof *clients);

	if (!clients)
		return -ENOMEM;
	fprintf(file,
		"farpage-handover %u\nincarnation %" PRIx64 "\nslab-bytes %" PRIu64
		"\nmemory %d %d\ndraining %d\ngeneration %u\n",
		VERSION, donor->incarnation, donor->config.limits.slab_bytes, files.plain, files.huge,
		donor->book->draining, highest_generation(donor));
	clients_write(file, donor, clients);
	slabs_write(file, donor, clients);
	fprintf(file, "end\n");
	free(clients);
	return fflush(file) || ferror(file) ? -EIO : 0;
}

int handover_write(const struct donor *donor)
{
	int fd = memfd_create("farpage-handover", MFD_CLOEXEC), copy = fd < 0 ? -1 : dup(fd), status;
	FILE *file = copy < 0 ? NULL : fdopen(copy, "w");

	if (!file) {
		status = -errno;
		if (copy >= 0)
			close(copy);
	} else {
		status = list_write(file, donor);
		fclose(file);
	}
	if (status == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return status;
}

/* --- Reading --------------------------------------------------------------------------------------------- */

static bool id_parse(const char *text, uint8_t id[WIRE_ID_SIZE])
{
	for (unsigned i = 0; i < WIRE_ID_SIZE; i++)
		if (sscanf(text + 2 * i, "%2hhx", &id[i]) != 1)
			return false;
	return true;
}

/* Adds an element filled with zeroes to the array, and returns it. Returns NULL if there is no memory. */
static void *array_add(void **array, uint32_t *count, size_t size)
{
	char *longer = *count % 64 ? *array : realloc(*array, (*count + 64u) * size);

	if (!longer)
		return NULL;
	*array = longer;
	return memset(longer + (size_t)(*count)++ * size, 0, size);
}

static bool client_read(struct handover *handover, const char *line)
{
	struct handover_client *client =
	    array_add((void **)&handover->clients, &handover->client_count, sizeof *handover->clients);
	char id[2 * WIRE_ID_SIZE + 1], owner[LEASE_OWNER_SIZE] = "";
	static_assert(LEASE_OWNER_SIZE == 32 && WIRE_ID_SIZE == 16 && WIRE_ADDRESS_SIZE == 64, "as scanned below");

	if (!client ||
	    sscanf(line, "client %32[0-9a-f] %" SCNu64 " %31s %63[^\n]", id, &client->left_ns, owner, client->from) < 3)
		return false;
	if (strcmp(owner, ".") != 0) /* no name has a dot (keyring.h) */
		memcpy(client->owner, owner, sizeof owner);
	return strlen(id) == 2 * WIRE_ID_SIZE && id_parse(id, client->id);
}

/* Moves the text up to @end from *@at to @ret_text, which is all zero. Returns false if @end is missing or the room is
   too small. */
static bool field_read(const char **at, char end, char *ret_text, size_t size)
{
	const size_t length = strcspn(*at, "\t\n");

	if ((*at)[length] != end || length >= size)
		return false;
	memcpy(ret_text, *at, length);
	*at += length + 1;
	return true;
}

static bool about_read(struct handover *handover, const char *line)
{
	const char *at = strchr(line, '\t');
	struct handover_client *client;
	struct wire_about *about;

	if (!at || !handover->client_count)
		return false;
	client = &handover->clients[handover->client_count - 1];
	about = &client->about;
	at++;
	return sscanf(line, "about %" SCNu64 " %" SCNu32, &client->since, &about->pid) == 2 &&
	       field_read(&at, '\t', about->host, sizeof about->host) &&
	       field_read(&at, '\t', about->user, sizeof about->user) &&
	       field_read(&at, '\n', about->command, sizeof about->command);
}

static bool slab_read(struct handover *handover, const char *line)
{
	struct handover_slab *slab =
	    array_add((void **)&handover->slabs, &handover->slab_count, sizeof *handover->slabs);
	int huge;

	if (!slab ||
	    sscanf(line, "slab %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNd32 " %d", &slab->index,
		   &slab->lease.generation, &slab->lease.order, &slab->lease.warmth, &slab->client, &huge) != 6)
		return false;
	slab->huge = huge;
	return slab->index < LEASE_SLABS_MAX && slab->client < (int32_t)handover->client_count &&
	       (slab == handover->slabs || slab->index > slab[-1].index);
}

static bool header_read(struct handover *handover, FILE *file)
{
	unsigned version;
	int draining;

	if (fscanf(file, "farpage-handover %u\n", &version) != 1 || !version || version > VERSION ||
	    fscanf(file,
		   "incarnation %" SCNx64 "\nslab-bytes %" SCNu64 "\nmemory %d %d\ndraining %d\ngeneration %" SCNu32
		   "\n",
		   &handover->incarnation, &handover->slab_bytes, &handover->files.plain, &handover->files.huge,
		   &draining, &handover->generation) != 6)
		return false;
	handover->draining = draining;
	return true;
}

static bool list_read(struct handover *handover, FILE *file)
{
	char line[256];

	if (!header_read(handover, file))
		return false;
	while (fgets(line, sizeof line, file)) {
		bool good;

		if (strcmp(line, "end\n") == 0)
			return true;
		if (strncmp(line, "client ", 7) == 0)
			good = client_read(handover, line);
		else if (strncmp(line, "about ", 6) == 0)
			good = about_read(handover, line);
		else
			good = slab_read(handover, line);
		if (!good)
			return false;
	}
	return false;
}

int handover_read(struct handover *ret_handover)
{
	const char *text = getenv(HANDOVER_VARIABLE);
	FILE *file;
	bool good;
	int fd;

	*ret_handover = (struct handover){.files = {-1, -1}};
	if (!text)
		return -ENOENT;
	fd = atoi(text);
	file = fd > STDERR_FILENO && lseek(fd, 0, SEEK_SET) == 0 ? fdopen(fd, "r") : NULL;
	good = file && list_read(ret_handover, file);
	if (file)
		fclose(file);
	unsetenv(HANDOVER_VARIABLE);
	if (good)
		return 0;
	handover_free(ret_handover);
	log_error("cannot read the list of leases from the earlier program (" HANDOVER_VARIABLE "=%s)", text);
	return -EPROTO;
}

void handover_free(struct handover *handover)
{
	free(handover->clients);
	free(handover->slabs);
	handover->clients = NULL;
	handover->slabs = NULL;
	handover->client_count = handover->slab_count = 0;
}

/* --- Adopting -------------------------------------------------------------------------------------------- */

int handover_check(const struct handover *handover, const struct donor_config *config)
{
	const uint64_t bytes = config->limits.slab_bytes;
	char one[SIZE_TEXT_MAX], other[SIZE_TEXT_MAX];
	uint64_t needed = 0;

	for (uint32_t i = 0; i < handover->slab_count; i++)
		if (handover->slabs[i].client != NOBODY)
			needed = handover->slabs[i].index + UINT64_C(1);
	if (handover->client_count && handover->slab_bytes != bytes)
		log_error("slabs of %s are leased, and --slab is %s: give --slab %s, or drain this donor first",
			  size_format(handover->slab_bytes, one), size_format(bytes, other), one);
	else if (needed > config->limits.slabs)
		log_error("--donate %s: slab %llu is leased: give at least --donate %s, or drain this donor first",
			  size_format(config->limits.slabs * bytes, one), (unsigned long long)needed - 1,
			  size_format(needed * bytes, other));
	else if (handover->client_count > config->limits.sessions)
		log_error("--clients %u: %u clients have leases; give at least --clients %u", config->limits.sessions,
			  handover->client_count, handover->client_count);
	else
		return 0;
	return -EINVAL;
}

/* Adopts the memory of a leased slab for a session. Returns false if that failed, after one logged line. */
static bool memory_adopt(const struct handover_slab *slab, struct donor *donor, uint32_t session)
{
	struct fabric_domain *domain = donor->sessions[session].domain;
	int status = slab_adopt(donor->worker, slab->index, slab->huge, domain, &donor->regions[slab->index]);

	if (status < 0) {
		log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_DATA_LOST, .client = donor->sessions[session].name),
			  "slab %u of client %s cannot be taken over: %s; its contents are lost", slab->index,
			  donor->sessions[session].name, strerror(-status));
		return false;
	}
	donor->domains[slab->index] = domain;
	return true;
}

static void slabs_adopt(const struct handover *handover, struct donor *donor, const uint32_t *sessions)
{
	for (uint32_t i = 0; i < handover->slab_count; i++) {
		const struct handover_slab *slab = &handover->slabs[i];
		struct lease_slab lease = slab->lease;

		if (slab->index >= donor->config.limits.slabs)
			continue;                /* a free slab: handover_check() refuses leased ones */
		watchdog_tell(&donor->watchdog); /* registering a lot of memory takes many seconds */
		lease.session = slab->client == NOBODY ? LEASE_NO_SESSION : sessions[slab->client];
		if (lease.session != LEASE_NO_SESSION && !memory_adopt(slab, donor, lease.session))
			lease.session = LEASE_NO_SESSION;
		lease_adopt_slab(donor->book, slab->index, &lease);
	}
}

static int clients_adopt(const struct handover *handover, struct donor *donor, uint32_t *ret_sessions)
{
	for (uint32_t i = 0; i < handover->client_count; i++) {
		const struct handover_client *client = &handover->clients[i];
		int status;

		ret_sessions[i] =
		    lease_adopt_session(donor->book, donor_now(donor), client->id, client->owner, client->left_ns);
		status = donor_session_open(donor, ret_sessions[i]);
		if (status < 0)
			return status;
		memcpy(donor->sessions[ret_sessions[i]].from, client->from, sizeof client->from);
		donor->sessions[ret_sessions[i]].about = client->about;
		donor->sessions[ret_sessions[i]].since = client->since ? client->since : clock_now();
	}
	return 0;
}

int handover_adopt(const struct handover *handover, struct donor *donor)
{
	uint32_t *sessions = calloc(handover->client_count + 1u, sizeof *sessions);
	int status = sessions ? clients_adopt(handover, donor, sessions) : -ENOMEM;

	if (status == 0)
		slabs_adopt(handover, donor, sessions);
	free(sessions);
	if (status < 0) {
		log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_DATA_LOST),
			  "cannot take over the leases of clients: %s; the contents are lost", strerror(-status));
		return status;
	}
	lease_adopted(donor->book, handover->generation);
	slab_discard_rest(donor->worker);
	donor->incarnation = handover->incarnation;
	if (handover->draining)
		lease_drain(donor->book, donor_now(donor), WIRE_DRAIN_WAIT, 0);
	donor_settle(donor);
	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = EVENT_UPGRADED), "took over %u slab%s of %u client%s",
		  lease_in_use(donor->book), lease_in_use(donor->book) == 1 ? "" : "s", handover->client_count,
		  handover->client_count == 1 ? "" : "s");
	return 0;
}
