/* state: see state.h. */
#include "client/page/state.h"

#include "client/page/populate.h"
#include "common/format.h"
#include "common/log.h"
#include "common/random.h"
#include "common/size.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Alignment of the arrays: a multiple of the page size of any kernel. */
#define STATE_ALIGN UINT64_C(65536)
/* This many pages have 2^48 bytes, so no product below overflows. */
#define STATE_PAGES_MAX (UINT64_C(1) << 36)

struct state {
	char *path;
	int fd;
	uint64_t length; /* the length of the file when it was opened, and later of the mapping */
	bool half_made;  /* when it was opened, the file had a header that state_create() had not completed */
	uint8_t *base;   /* NULL if not mapped */
	struct state_donor *donors; /* the donors behind the arrays, or NULL if there is no place for them */
	struct chunk_table table;
	struct integrity integrity;
};

/* --- Layout --------------------------------------------------------------------------------------------------- */

struct state_layout {
	uint64_t chunks, attention, generations, sums, donors;
	uint64_t length; /* with all donors; without those behind the arrays, `donors` is the length */
};

static uint64_t layout_add(uint64_t *length, uint64_t bytes)
{
	uint64_t offset = *length;

	*length += (bytes + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
	return offset;
}

static struct state_layout layout_of(uint64_t pages, uint64_t chunk_pages, bool sealed)
{
	uint64_t count = chunk_table_count(pages, chunk_pages), length = STATE_HEADER_BYTES;
	struct state_layout layout;

	length = (length + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
	layout.chunks = layout_add(&length, count * sizeof(struct chunk));
	layout.attention = layout_add(&length, chunk_table_attention_bytes(count));
	layout.generations = layout_add(&length, pages * sizeof(uint16_t));
	layout.sums = layout_add(&length, pages * INTEGRITY_SUM_WORDS(sealed) * sizeof(uint64_t));
	layout.donors = layout_add(&length, sizeof(struct state_donor) * (FAR_DONORS_MAX - STATE_DONORS));
	layout.length = length;
	return layout;
}

/* Counts the places after the fixed addresses as empty. state_donor_add() writes an address there before it counts the
   donor. So at each moment, whatever these places contain, the header is valid. */
static uint64_t header_sum(const struct state_header *header)
{
	static const char empty[FAR_URI_MAX];
	const size_t first = offsetof(struct state_header, pages), uris = offsetof(struct state_header, uris);
	const size_t end = offsetof(struct state_header, incarnations), backup = offsetof(struct state_header, backup);
	const uint8_t *bytes = (const uint8_t *)header;
	XXH3_state_t sum;

	XXH3_64bits_reset(&sum);
	XXH3_64bits_update(&sum, bytes + first, uris - first);
	for (unsigned i = 0; i < STATE_DONORS; i++)
		XXH3_64bits_update(&sum, i < header->donor_count ? header->uris[i] : empty, FAR_URI_MAX);
	XXH3_64bits_update(&sum, bytes + backup, end - backup);
	return XXH3_64bits_digest(&sum);
}

struct state_header *state_header(struct state *state)
{
	return (struct state_header *)state->base;
}

unsigned state_donor_count(struct state *state)
{
	return state_header(state)->donor_count + (unsigned)state_header(state)->added;
}

unsigned state_donor_places(struct state *state)
{
	return state->donors ? FAR_DONORS_MAX : STATE_DONORS;
}

char *state_uri(struct state *state, unsigned donor)
{
	return donor < STATE_DONORS ? state_header(state)->uris[donor] : state->donors[donor - STATE_DONORS].uri;
}

_Atomic uint64_t *state_incarnation(struct state *state, unsigned donor)
{
	return donor < STATE_DONORS ? &state_header(state)->incarnations[donor]
				    : &state->donors[donor - STATE_DONORS].incarnation;
}

void state_donor_add(struct state *state, const char *uri)
{
	struct state_header *header = state_header(state);

	strcpy(state_uri(state, state_donor_count(state)), uri);
	header->added++; /* last, so that a process killed here leaves only whole addresses */
}

void state_tables(struct state *state, struct chunk_table *ret_table, struct integrity *ret_integrity)
{
	*ret_table = state->table;
	*ret_integrity = state->integrity;
}

/* --- Opening and closing -------------------------------------------------------------------------------------- */

/* state_create() writes the checksum last, so a file without it has no store yet. */
static bool file_is_half_made(int fd)
{
	struct state_header header;
	const ssize_t wanted = offsetof(struct state_header, pages);

	return pread(fd, &header, (size_t)wanted, 0) == wanted && header.magic == STATE_MAGIC &&
	       header.version == STATE_VERSION && header.sum == 0;
}

static int open_file(struct state *state)
{
	struct stat status;

	state->fd = open(state->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (state->fd < 0 || fstat(state->fd, &status) < 0) {
		int error = -errno;

		log_error("cannot open the state file %s: %s", state->path, format_errno(error));
		return error;
	}
	if (!S_ISREG(status.st_mode)) {
		log_error("%s is not a file that a store's state can be kept in", state->path);
		return -EINVAL;
	}
	if (flock(state->fd, LOCK_EX | LOCK_NB) < 0) {
		int error = errno == EWOULDBLOCK ? -EBUSY : -errno;

		if (error == -EBUSY)
			log_error("the store in %s is in use by another process: it must end first", state->path);
		else
			log_error("cannot lock the state file %s: %s", state->path, format_errno(error));
		return error;
	}
	/* The process that had the lock before may have changed the length. */
	if (fstat(state->fd, &status) < 0)
		return -errno;
	state->length = (uint64_t)status.st_size;
	state->half_made = file_is_half_made(state->fd);
	return 0;
}

int state_open(const char *path, struct state **ret_state)
{
	struct state *state = calloc(1, sizeof *state);
	int error = -ENOMEM;

	if (!state)
		return error;
	state->fd = -1;
	state->path = strdup(path);
	if (state->path)
		error = open_file(state);
	if (error < 0) {
		state_close(state, false);
		return error;
	}
	*ret_state = state;
	return 0;
}

static void state_unmap(struct state *state)
{
	chunk_table_close(&state->table);
	integrity_close(&state->integrity);
	if (state->base)
		munmap(state->base, state->length);
	state->base = NULL;
	state->donors = NULL;
}

void state_close(struct state *state, bool empty)
{
	if (!state)
		return;
	state_unmap(state);
	if (empty && ftruncate(state->fd, 0) < 0)
		log_warning("cannot empty the state file %s: %s; remove it", state->path, format_errno(errno));
	if (state->fd >= 0)
		close(state->fd);
	free(state->path);
	free(state);
}

bool state_is_new(const struct state *state)
{
	return state->length == 0 || state->length == STATE_HEADER_BYTES || state->half_made;
}

/* Populates the header, the donors and the chunks, which every store uses from the start. */
static int state_populate(struct state *state)
{
	struct chunk_table *table = &state->table;
	int error = populate_range(state->base, STATE_HEADER_BYTES);

	if (error == 0 && state->donors)
		error = populate_range(state->donors, state_donor_count(state) * sizeof *state->donors);
	if (error == 0)
		error = populate_range(table->chunks, table->count * sizeof *table->chunks);
	if (error == 0)
		error = populate_range((void *)table->attention, chunk_table_attention_bytes(table->count));
	return error;
}

/* Maps the whole file. Its header was checked. */
static int state_map(struct state *state)
{
	void *base = mmap(NULL, state->length, PROT_READ | PROT_WRITE, MAP_SHARED, state->fd, 0);
	struct state_header *header = base;
	struct state_layout layout;
	int error;

	if (base == MAP_FAILED)
		return -errno;
	madvise(base, state->length, MADV_NOHUGEPAGE); /* as in integrity.c: only scattered pages are touched */
	state->base = base;
	layout = layout_of(header->pages, header->chunk_pages, header->sealed);
	if (state->length == layout.length)
		state->donors = (struct state_donor *)(state->base + layout.donors);
	integrity_place(&state->integrity, header->pages, (_Atomic uint16_t *)(state->base + layout.generations),
			(_Atomic uint64_t *)(state->base + layout.sums), header->sealed ? &header->numbers : NULL,
			header->secret);
	state->integrity.keeps = *header->backup;
	error = chunk_table_place(&state->table, header->pages, header->chunk_pages, header->replicas,
				  (struct chunk *)(state->base + layout.chunks),
				  (_Atomic uint64_t *)(state->base + layout.attention));
	return error < 0 ? error : state_populate(state);
}

/* --- A new store ----------------------------------------------------------------------------------------------- */

/* Fills in everything but the checksum. */
static void header_fill(struct state_header *header, const struct far_config *config, uint64_t pages,
			uint64_t chunk_pages, const uint8_t id[WIRE_ID_SIZE])
{
	header->magic = STATE_MAGIC;
	header->version = STATE_VERSION;
	header->chunk_bytes = sizeof(struct chunk);
	header->pages = pages;
	header->chunk_pages = chunk_pages;
	header->replicas = config->replicas;
	header->donor_count = config->donor_count < STATE_DONORS ? config->donor_count : STATE_DONORS;
	header->sealed = config->encrypt;
	memcpy(header->id, id, WIRE_ID_SIZE);
	random_secret(header->secret, sizeof header->secret);
	for (unsigned i = 0; i < header->donor_count; i++)
		strcpy(header->uris[i], config->donors[i]);
	if (config->backup)
		strcpy(header->backup, config->backup);
}

static int header_write(struct state *state, const struct state_header *header, uint64_t length)
{
	ssize_t written;

	if (ftruncate(state->fd, 0) < 0 || ftruncate(state->fd, STATE_HEADER_BYTES) < 0)
		return -errno;
	written = pwrite(state->fd, header, sizeof *header, 0);
	if (written < 0)
		return -errno;
	if (written != sizeof *header)
		return -ENOSPC;
	return ftruncate(state->fd, (off_t)length) < 0 ? -errno : 0;
}

int state_create(struct state *state, const struct far_config *config, uint64_t pages, uint64_t chunk_pages,
		 const uint8_t id[WIRE_ID_SIZE])
{
	struct state_header *header = calloc(1, sizeof *header);
	const bool many = config->donor_count > STATE_DONORS || config->donors_file;
	int error = header ? 0 : -ENOMEM;
	uint64_t length = 0;

	for (unsigned i = 0; i < config->donor_count && error == 0; i++)
		error = strlen(config->donors[i]) < FAR_URI_MAX ? 0 : -ENAMETOOLONG;
	if (error == 0 && (pages > STATE_PAGES_MAX || chunk_pages > UINT32_MAX / 2))
		error = -EFBIG;
	if (error == 0) {
		const struct state_layout layout = layout_of(pages, chunk_pages, config->encrypt);

		length = many ? layout.length : layout.donors;
		header_fill(header, config, pages, chunk_pages, id);
		error = header_write(state, header, length);
	}
	if (header)
		explicit_bzero(header, sizeof *header);
	free(header);
	if (error == 0) {
		state->length = length;
		state->half_made = false;
		error = state_map(state);
	}
	for (unsigned i = STATE_DONORS; i < config->donor_count && error == 0; i++)
		state_donor_add(state, config->donors[i]);
	if (error == 0) /* last, so that a process killed here leaves no store with a part of the donors */
		state_header(state)->sum = header_sum(state_header(state));
	if (error < 0)
		log_error("cannot keep a store's state in %s: %s", state->path, format_errno(error));
	return error;
}

/* --- The store of an ended process ----------------------------------------------------------------------------- */

/* Returns true if the addresses of added donors in the header, which the checksum does not cover, are possible. */
static bool added_are_possible(const struct state_header *header)
{
	const unsigned first = header->donor_count;

	if (first > STATE_DONORS || header->added > FAR_DONORS_MAX - first)
		return false;
	for (unsigned i = first; i < STATE_DONORS && i < first + header->added; i++)
		if (!memchr(header->uris[i], '\0', FAR_URI_MAX))
			return false;
	return true;
}

/* Returns NULL if the header is valid, or a text that says what is wrong. */
static const char *header_fault(const struct state_header *header, uint64_t length)
{
	struct state_layout layout;

	if (header->magic != STATE_MAGIC)
		return "it is something else";
	if (header->version != STATE_VERSION || header->chunk_bytes != sizeof(struct chunk))
		return "another version of farpage has written it";
	if (!added_are_possible(header) || header->sum != header_sum(header))
		return "its header is damaged";
	if (!header->pages || header->pages > STATE_PAGES_MAX || !header->chunk_pages ||
	    header->chunk_pages > UINT32_MAX / 2 || !header->donor_count || header->donor_count > STATE_DONORS ||
	    !header->replicas || header->replicas > FAR_REPLICAS_MAX || header->replicas > header->donor_count ||
	    header->sealed > 1)
		return "its header makes no sense";
	for (unsigned i = 0; i < header->donor_count; i++)
		if (!memchr(header->uris[i], '\0', FAR_URI_MAX))
			return "its header makes no sense";
	layout = layout_of(header->pages, header->chunk_pages, header->sealed);
	if (length != layout.length && (length != layout.donors || header->donor_count + header->added > STATE_DONORS))
		return "its length is wrong";
	if (!memchr(header->backup, '\0', FAR_BACKUP_MAX))
		return "its header makes no sense";
	return NULL;
}

/* Logs and returns true if the store's donors are not those of the configuration. Returns false with a donors file:
   donors are then added and removed after the adoption. */
static bool donors_contradict(struct state *state, const struct far_config *config)
{
	const unsigned count = state_donor_count(state);

	if (config->donors_file)
		return false;
	if (config->donor_count != count) {
		log_error("%s holds a store on %u donor%s, not on %u: give the same donors", state->path, count,
			  count == 1 ? "" : "s", config->donor_count);
		return true;
	}
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(config->donors[i], state_uri(state, i)) == 0)
			continue;
		log_error("%s holds a store whose donor %u is %s, not %s: give the same donors in the same order",
			  state->path, i + 1, state_uri(state, i), config->donors[i]);
		return true;
	}
	return false;
}

/* If the configuration describes another store than the file, logs this and returns true. */
static bool config_contradicts(const struct state *state, const struct state_header *header,
			       const struct far_config *config)
{
	char here[SIZE_TEXT_MAX], wanted[SIZE_TEXT_MAX];

	if (config->pages && config->pages != header->pages) {
		log_error("%s holds a store of %s, not of %s: give that size, or none", state->path,
			  size_format(header->pages * STORE_PAGE, here),
			  size_format(config->pages * STORE_PAGE, wanted));
		return true;
	}
	if (config->replicas != header->replicas) {
		log_error("%s holds a store of %u replica%s, not of %u: give that number", state->path,
			  header->replicas, header->replicas == 1 ? "" : "s", config->replicas);
		return true;
	}
	if (config->encrypt != (header->sealed == 1)) {
		log_error("%s holds a store that is %s: %s", state->path,
			  header->sealed ? "encrypted" : "not encrypted",
			  header->sealed ? "give --encrypt (encrypt)" : "leave --encrypt (encrypt) out");
		return true;
	}
	if (strcmp(config->backup ? config->backup : "", header->backup) != 0) {
		log_error("%s holds a store %s%s, not %s%s: give the same backup", state->path,
			  *header->backup ? "with the backup " : "without a backup", header->backup,
			  config->backup ? "with the backup " : "without one", config->backup ? config->backup : "");
		return true;
	}
	return false;
}

struct state_slab {
	uint64_t name;
	uint32_t donor;
};

static int slab_compare(const void *a, const void *b)
{
	const struct state_slab *one = a, *other = b;

	if (one->donor != other->donor)
		return one->donor < other->donor ? -1 : 1;
	return one->name == other->name ? 0 : one->name < other->name ? -1 : 1;
}

/* Stores the slabs that READY chunks name in @slabs, sorted. Returns how many there are. */
static uint64_t slabs_list(const struct chunk_table *table, struct state_slab *slabs)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	uint64_t count = 0;

	for (uint64_t i = 0; i < table->count; i++) {
		if (chunk_state(table, i) != CHUNK_READY)
			continue;
		chunk_slots(table, i, slots);
		for (unsigned j = 0; j < FAR_SLOTS_MAX; j++)
			if (slots[j].state != SLOT_EMPTY)
				slabs[count++] = (struct state_slab){.name = slots[j].slab, .donor = slots[j].donor};
	}
	qsort(slabs, count, sizeof *slabs, slab_compare);
	return count;
}

/* Checks the addresses of the donors behind the arrays. Returns 0 or -EINVAL. */
static int donors_check(struct state *state)
{
	for (unsigned i = STATE_DONORS; i < state_donor_count(state); i++)
		if (!memchr(state_uri(state, i), '\0', FAR_URI_MAX))
			return -EINVAL;
	return 0;
}

/* Checks that each chunk's state is possible, and that no two chunks name the same slab. Returns 0, -EINVAL or
   -ENOMEM. */
static int chunks_check(const struct chunk_table *table, unsigned donors)
{
	struct state_slab *slabs;
	uint64_t ready = 0, count;
	int error = 0;

	for (uint64_t i = 0; i < table->count; i++) {
		if (chunk_check(table, i, donors) < 0)
			return -EINVAL;
		ready += chunk_state(table, i) == CHUNK_READY;
	}
	if (!ready)
		return 0;
	slabs = calloc(ready * FAR_SLOTS_MAX, sizeof *slabs);
	if (!slabs)
		return -ENOMEM;
	count = slabs_list(table, slabs);
	for (uint64_t i = 1; i < count && error == 0; i++)
		error = slab_compare(&slabs[i - 1], &slabs[i]) ? 0 : -EINVAL;
	free(slabs);
	return error;
}

static int header_read(struct state *state, struct state_header *header)
{
	ssize_t size = pread(state->fd, header, sizeof *header, 0);
	const char *fault;

	if (size < 0)
		return -errno;
	fault = size == sizeof *header ? header_fault(header, state->length) : "it is too short";
	if (!fault)
		return 0;
	log_error("%s does not hold a store that can be adopted, %s: remove it to begin anew", state->path, fault);
	return -EINVAL;
}

int state_adopt(struct state *state, const struct far_config *config)
{
	struct state_header *header = calloc(1, sizeof *header);
	int error = header ? header_read(state, header) : -ENOMEM;

	if (error == 0 && config_contradicts(state, header, config))
		error = -EINVAL;
	if (error == 0) {
		error = state_map(state);
		if (error == 0)
			error = donors_check(state);
		if (error == 0)
			error = chunks_check(&state->table, state_donor_count(state));
		if (error < 0)
			log_error("the store in %s cannot be adopted: %s", state->path,
				  error == -EINVAL ? "its map of slabs is damaged; remove the file to begin anew"
						   : format_errno(error));
		else if (donors_contradict(state, config))
			error = -EINVAL;
	}
	if (error < 0)
		state_unmap(state);
	if (header)
		explicit_bzero(header, sizeof *header);
	free(header);
	return error;
}

/* Returns how many pages the chunk has. The last chunk may be shorter. */
static uint64_t pages_of(const struct state *state, uint64_t chunk, uint64_t *ret_first)
{
	uint64_t rest;

	*ret_first = chunk * state->table.pages;
	rest = state->integrity.pages - *ret_first;
	return rest < state->table.pages ? rest : state->table.pages;
}

int state_recover(struct state *state, uint64_t *ret_lost)
{
	struct chunk_table *table = &state->table;
	uint64_t lost = 0;
	int error = 0;

	memset((void *)table->attention, 0, chunk_table_attention_bytes(table->count));
	for (uint64_t i = 0; i < table->count && error == 0; i++) {
		uint64_t first, count = pages_of(state, i, &first), live = 0;

		/* Skips a chunk that was never used, because reading its generations would allocate memory in the
		   file. */
		if (!chunk_is_untouched(table, i)) {
			error = integrity_populate(&state->integrity, first, count);
			if (error < 0)
				break;
			integrity_count_kept(&state->integrity, first, count);
			if (chunk_state(table, i) == CHUNK_READY)
				live = integrity_live(&state->integrity, first, count);
			else
				lost += integrity_lose(&state->integrity, first, count);
		}
		chunk_recover(table, i, (uint32_t)live);
	}
	if (error < 0) {
		log_error("cannot adopt the store in %s: %s", state->path, format_errno(error));
		return error;
	}
	*ret_lost = lost;
	return 0;
}
