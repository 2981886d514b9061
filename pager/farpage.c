#include "farpage/farpage.h"

#include "client/far.h"
#include "common/format.h"
#include "common/log.h"
#include "common/size.h"
#include "pager/children.h"
#include "pager/core.h"
#include "pager/discard.h"
#include "pager/entry.h"
#include "pager/evictor.h"
#include "pager/forks.h"
#include "pager/handler.h"
#include "pager/keep.h"
#include "pager/pagemap.h"
#include "pager/pager.h"
#include "pager/thread.h"
#include "pager/trace.h"
#include "wire/auth.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define SPIN_US_DEFAULT 50u
#define PREFETCH_DEFAULT 64u
/* The victim buffer gets this fraction of the budget. docs/performance.md compares fractions. */
#define VICTIMS_SHARE 24u
#define VICTIMS_MIN 128u /* least and most pages of the victim buffer */
#define VICTIMS_MAX 16384u
/* There are this fraction of the window's pages as shadows (shadows.h). A window of `farpage run` is at least four
   times what donors can store. */
#define SHADOWS_SHARE 4u
#define BACKUP_SHARE 32u /* pages that wait for the backup's disk get at most this fraction of the budget */
#define BATCH_SHARE 128  /* a batch of the evictor is this fraction of the budget; 1 to 2 batches are kept free */
#define QUEUE_DEPTH 128u /* two batches of the evictor. The store's queues are part of --local, so they are short */
#define BATCH_MIN 8
#define GRACE_MS 1000u /* short, because nobody needs the contents of a dead process */

/* The struct is a mapping of its own, because the program's malloc may return far memory. */
struct farpage {
	struct core core;
	struct children children;
	struct handler handler;
	struct evictor evictor;
	struct window own_window;
	struct pager_counters own_counters;
	void *landing;
	uint64_t local;
	bool owns_store, owns_window;
};

/* --- Opening ---------------------------------------------------------------------------------------------------- */

static uint32_t victim_count(uint64_t local)
{
	uint64_t pages = local / STORE_PAGE / VICTIMS_SHARE;

	return (uint32_t)(pages < VICTIMS_MIN ? VICTIMS_MIN : pages > VICTIMS_MAX ? VICTIMS_MAX : pages);
}

/* Calls @take for each page of the window that is present. Returns 0 or -errno. */
static int for_each_present(struct core *core, void (*take)(struct core *core, uint64_t page))
{
	bool present[PAGEMAP_MAX];
	int result = 0, pagemap = pagemap_open();

	if (pagemap < 0)
		return pagemap;
	for (uint64_t page = 0, left; result == 0 && page < core->window->high;) {
		left = core->window->high - page;
		unsigned count = left < PAGEMAP_MAX ? (unsigned)left : PAGEMAP_MAX;
		result = pagemap_present(pagemap, core_address(core, page), count, present);
		for (unsigned i = 0; result == 0 && i < count; i++)
			if (present[i])
				take(core, page + i);
		page += count;
	}
	close(pagemap);
	return result;
}

static void present_count(struct core *core, uint64_t page)
{
	(void)page;
	atomic_fetch_add(&core->resident, 1);
}

static void present_adopt(struct core *core, uint64_t page)
{
	if (pages_move(&core->pages, page, PAGE_UNTOUCHED, PAGE_RESIDENT, 0))
		residents_push(&core->residents, page, false);
}

/* Pages that are present when the pager starts become resident. They count against the budget, and may exceed it.
   The evictor evicts the excess before farpage_open() returns. */
static int adopt_present(struct farpage *farpage)
{
	struct core *core = &farpage->core;
	int result = for_each_present(core, present_count);

	if (result == 0)
		result = residents_reserve(&core->residents, (uint32_t)atomic_load(&core->resident));
	return result ? result : for_each_present(core, present_adopt);
}

static void set_marks(struct farpage *farpage)
{
	struct core *core = &farpage->core;
	int64_t pages = (int64_t)(farpage->local / STORE_PAGE);
	int64_t batch = pages / BATCH_SHARE;

	batch = batch < BATCH_MIN ? BATCH_MIN : batch > TAKE_MAX ? TAKE_MAX : batch;
	core->low = batch;
	core->high = 2 * batch;
	atomic_store(&core->limit, pages);
	farpage->evictor.batch = (unsigned)batch;
}

/* Registers the victim buffer's frames; an RDMA device then pins them. Logs the reason of a failure. */
static int register_frames(struct core *core)
{
	size_t bytes = (size_t)core->victims.count * STORE_PAGE;
	char size[SIZE_TEXT_MAX];
	int result = store_register(core->store, core->victims.frames, bytes, &core->buffer);

	if (result == -EPERM)
		log_error(
		    "cannot pin %s of buffers for the RDMA device: the limit on locked memory is too low; raise it "
		    "(ulimit -l, LimitMEMLOCK=), run as root, or use tcp:// donors",
		    size_format(bytes, size));
	else if (result)
		log_error("cannot register %s of buffers: %s", size_format(bytes, size), format_errno(result));
	return result;
}

static int report_memory(int result)
{
	if (result)
		log_error("no memory for the pager's own tables: %s", format_errno(result));
	return result;
}

static int open_tables(struct farpage *farpage)
{
	struct core *core = &farpage->core;
	int result = kick_open(&core->handler_kick);

	if (result == 0)
		result = kick_open(&core->evictor_kick);
	if (result == 0)
		result = pages_open(&core->pages, core->store->pages);
	if (result == 0)
		result = shadows_open(&core->shadows, core->store, &core->pages, core->window->length / STORE_PAGE);
	if (result == 0)
		result = residents_open(&core->residents, &core->pages, (uint32_t)(farpage->local / STORE_PAGE));
	if (result == 0)
		result = victims_open(&core->victims, &core->pages, &core->refault, victim_count(farpage->local));
	if (result == 0 && !(farpage->landing = take_landing()))
		result = -ENOMEM;
	if (result == 0)
		result = trace_open(core->window->length / STORE_PAGE);
	return report_memory(result);
}

static int open_parts(struct farpage *farpage, const struct farpage_options *options)
{
	struct core *core = &farpage->core;
	int result = open_tables(farpage);

	if (result == 0)
		result = register_frames(core);
	if (result)
		return result;
	result = uffd_explain(uffd_open(core->window->base, core->window->length, farpage->landing,
					(size_t)TAKE_LANDING * STORE_PAGE, &core->uffd));
	if (result)
		return result;
	/* If forks are not reported, a child would read far pages as zeroes. So children do not get the window at
	   all. */
	if (!core->uffd.sees_forks)
		madvise(core->window->base, core->window->length, MADV_DONTFORK);
	children_open(&farpage->children, core);
	core->children = &farpage->children;
	core->follow = &farpage->handler.follow;
	set_marks(farpage);
	unsigned batch = farpage->evictor.batch;
	result = evictor_open(&farpage->evictor, core, farpage->landing, batch, options->unsafe_dio);
	if (result == 0)
		result = handler_open(&farpage->handler, core, farpage->local / STORE_PAGE,
				      options->prefetch_pages ? options->prefetch_pages : PREFETCH_DEFAULT);
	return result;
}

static int start_parts(struct farpage *farpage)
{
	struct core *core = &farpage->core;

	farpage->evictor.local = farpage->local;
	farpage->evictor.overhead = sizeof *farpage + victims_memory(&core->victims) +
				    residents_memory(&core->residents) + take_memory(&farpage->evictor.take) +
				    2 * PAGER_STACK_TOUCHED;
	int result = adopt_present(farpage);
	/* The handler starts first: the evictor computes the budget at its start, and must count the handler's store
	   queue. */
	if (result == 0)
		result = handler_start(&farpage->handler);
	if (result == 0)
		result = evictor_start(&farpage->evictor);
	return result;
}

const char *pager_kernel_lacks(bool unsafe_dio)
{
	if (unsafe_dio || uffd_can_move())
		return NULL;
	return "this kernel cannot tell which memory a device writes to (UFFDIO_MOVE, Linux 6.8): O_DIRECT or io_uring "
	       "into far memory could go wrong; use a newer kernel (Debian 12: linux-image-6.12-amd64), or "
	       "--unsafe-dio for a program that does neither";
}

static int check_options(const struct farpage_options *options)
{
	char minimum[SIZE_TEXT_MAX];
	const char *with;
	size_t least = pager_local_least(options->backup, options->encrypt, &with);

	if (options->local < least) {
		log_error("a local budget of %zu bytes is too small: the least that works%s is %s", options->local,
			  with, size_format(least, minimum));
		return -EINVAL;
	}
	const char *lacking = pager_kernel_lacks(options->unsafe_dio);
	if (!lacking)
		return 0;
	log_error("%s", lacking);
	return -EOPNOTSUPP;
}

static struct farpage *allocate(void)
{
	struct farpage *farpage =
	    mmap(NULL, sizeof *farpage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (farpage == MAP_FAILED)
		return NULL;
	farpage->core.uffd = (struct uffd){.fd = -1, .mover = -1};
	farpage->core.handler_kick.fd = farpage->core.evictor_kick.fd = -1;
	farpage->evictor.writer.epoll = farpage->handler.epoll = -1;
	farpage->evictor.take.maps = farpage->evictor.take.memory = farpage->evictor.take.pagemap = -1;
	pthread_mutex_init(&farpage->core.evict_lock, NULL);
	return farpage;
}

/* Starts @farpage over @store and @window. After an error the caller calls farpage_close(). */
static int bring_up(struct farpage *farpage, const struct farpage_options *options, struct store *store,
		    struct window *window, struct pager_counters *counters)
{
	struct core *core = &farpage->core;

	farpage->local = options->local & ~(size_t)(STORE_PAGE - 1);
	core->store = store;
	core->window = window;
	core->counters = counters ? counters : &farpage->own_counters;
	refault_open(&core->refault, &core->counters->depths, farpage->local / STORE_PAGE);
	loop_open(&core->loop, farpage->local / STORE_PAGE);
	core->timeout_ms = far_timeout_ms(&(struct far_config){
	    .timeout_ms = options->timeout_ms, .replicas = options->replicas, .backup = options->backup});
	core->spin_us = options->spin_us ? options->spin_us : SPIN_US_DEFAULT;
	int result = open_parts(farpage, options);
	return result ? result : start_parts(farpage);
}

int pager_open_store(const struct farpage_options *options, struct store *store, struct window *window,
		     struct pager_counters *counters, struct farpage **ret_farpage)
{
	int result = check_options(options);

	if (result)
		return result;
	struct farpage *farpage = allocate();
	if (!farpage)
		return -ENOMEM;
	result = bring_up(farpage, options, store, window, counters);
	if (result)
		farpage_close(farpage);
	else
		*ret_farpage = farpage;
	return result;
}

/* --- Over donors ------------------------------------------------------------------------------------------------ */

static int open_store(const struct farpage_options *options, const char *donors_file, const char *user,
		      uint64_t window_bytes, struct store **ret_store)
{
	uint8_t key[AUTH_KEY_SIZE];
	struct far_config config = {
	    .donors = options->donors,
	    .donor_count = options->donor_count,
	    .donors_file = donors_file,
	    .user = user,
	    .replicas = options->replicas ? options->replicas : 1,
	    .go_without = true, /* a program must start even while a donor is away */
	    .scrub_rate = options->scrub_rate,
	    .encrypt = options->encrypt,
	    .backup = options->backup,
	    .backup_bytes = options->local / BACKUP_SHARE,
	    .grace_ms = GRACE_MS,
	    .fabric = FABRIC_CONFIG_DEFAULT,
	};

	config.timeout_ms = options->timeout_ms;
	config.fabric.depth = config.queue_depth = QUEUE_DEPTH;
	config.fabric.io_ms = 0; /* the store chooses the timeout of one request */
	if (options->spin_us)
		config.fabric.spin_us = options->spin_us;
	if (options->key_file) {
		int result = auth_key_load_or_tell(options->key_file, key);

		if (result)
			return result;
		config.key = key;
	}
	config.pages = window_bytes / STORE_PAGE + window_bytes / STORE_PAGE / SHADOWS_SHARE;
	config.local_pages = options->local / STORE_PAGE;
	int result = far_open(&config, ret_store);
	explicit_bzero(key, sizeof key);
	return result;
}

int pager_connect(const struct farpage_options *options, const char *donors_file, const char *user,
		  uint64_t window_bytes, struct store **ret_store)
{
	int result = check_options(options);

	return result ? result : open_store(options, donors_file, user, window_bytes, ret_store);
}

static int open_farpage(const struct farpage_options *options, struct farpage **ret_farpage)
{
	int result = check_options(options);

	if (result)
		return result;
	struct farpage *farpage = allocate();
	if (!farpage)
		return -ENOMEM;
	struct store *store;
	result = open_store(options, NULL, NULL, options->window, &store);
	if (result)
		goto fail;
	farpage->core.store = store;
	farpage->owns_store = true;
	size_t window = options->window;
	if (window == 0)
		window = store->pages / (SHADOWS_SHARE + 1) * SHADOWS_SHARE * STORE_PAGE;
	if (options->reservation)
		result = window_adopt(&farpage->own_window, options->reservation, window);
	else
		result = window_reserve(&farpage->own_window, window, 0);
	if (result)
		goto fail;
	farpage->owns_window = true;
	result = bring_up(farpage, options, store, &farpage->own_window, NULL);
	if (result)
		goto fail;
	*ret_farpage = farpage;
	return 0;

fail:
	farpage_close(farpage);
	return result;
}

static void close_farpage(struct farpage *farpage)
{
	struct core *core = &farpage->core;

	atomic_store(&core->stop, true);
	if (farpage->handler.core)
		handler_close(&farpage->handler);
	if (farpage->evictor.core)
		evictor_close(&farpage->evictor);
	children_close(&farpage->children);
	if (core->uffd.fd >= 0) {
		/* Empties the window first. When userfaultfd ends, far pages read as zeroes, so resident pages must
		   do so, too. */
		madvise(core->window->base, core->window->high * STORE_PAGE, MADV_DONTNEED);
		uffd_close(&core->uffd);
	}
	if (core->buffer)
		store_deregister(core->store, core->buffer);
	victims_close(&core->victims);
	residents_close(&core->residents);
	shadows_close(&core->shadows);
	pages_close(&core->pages);
	if (farpage->landing)
		munmap(farpage->landing, (size_t)TAKE_LANDING * STORE_PAGE);
	kick_close(&core->handler_kick);
	kick_close(&core->evictor_kick);
	pthread_mutex_destroy(&core->evict_lock);
	if (farpage->owns_store)
		store_close(core->store);
	if (farpage->owns_window)
		window_release(&farpage->own_window);
	munmap(farpage, sizeof *farpage);
}

/* Functions below that may wait use entry.h, so that the calling thread cannot be cancelled meanwhile. */

EXPORT int farpage_open(const struct farpage_options *options, struct farpage **ret_farpage)
{
	struct entry entry = entry_begin();

	return entry_end(entry, open_farpage(options, ret_farpage));
}

EXPORT void farpage_close(struct farpage *farpage)
{
	struct entry entry = entry_begin();

	if (farpage)
		close_farpage(farpage);
	entry_end(entry, 0);
}

/* --- Use -------------------------------------------------------------------------------------------------------- */

EXPORT int farpage_map(struct farpage *farpage, size_t length, void **ret_address)
{
	struct entry entry = entry_begin();

	return entry_end(entry,
			 length ? window_allocate(farpage->core.window, length, STORE_PAGE, ret_address) : -EINVAL);
}

/* Computes the pages of a byte range, rounded outwards or inwards. Returns 0, or -EINVAL if the range is not
   entirely inside the window. */
static int page_range(const struct farpage *farpage, const void *address, size_t length, bool inwards,
		      uint64_t *ret_page, uint64_t *ret_count)
{
	const struct window *window = farpage->core.window;
	uint64_t start = (uintptr_t)address - (uintptr_t)window->base, end = start + length;

	if (!window_contains(window, address) || end < start || end > window->length)
		return -EINVAL;
	start = inwards ? (start + STORE_PAGE - 1) / STORE_PAGE : start / STORE_PAGE;
	end = inwards ? end / STORE_PAGE : (end + STORE_PAGE - 1) / STORE_PAGE;
	*ret_page = start;
	*ret_count = end > start ? end - start : 0;
	return 0;
}

bool pager_follows_forks(const struct farpage *farpage)
{
	return farpage->core.uffd.sees_forks;
}

bool pager_fork_announce(struct farpage *farpage, int socket)
{
	return forks_announce(&farpage->children, socket);
}

void pager_fork_await(struct farpage *farpage)
{
	forks_await(&farpage->children);
}

void pager_farewell(struct farpage *farpage)
{
	farewell_say(&farpage->children);
}

int pager_keep(struct farpage *farpage, const void *address)
{
	uint64_t page, count;
	int result = page_range(farpage, address, 1, false, &page, &count);

	return result ? result : keep_page(&farpage->core, page);
}

int pager_descriptor(const struct farpage *farpage)
{
	return farpage->core.uffd.fd;
}

EXPORT int farpage_unmap(struct farpage *farpage, void *address, size_t length)
{
	uint64_t page, count;

	if ((uintptr_t)address % STORE_PAGE)
		return -EINVAL;
	int result = page_range(farpage, address, length, false, &page, &count);
	if (result)
		return result;
	struct entry entry = entry_begin();
	discard_pages(&farpage->core, page, count);
	window_free(farpage->core.window, address, count * STORE_PAGE);
	return entry_end(entry, 0);
}

static int advise(struct farpage *farpage, uint64_t page, uint64_t count, enum farpage_advice advice)
{
	switch (advice) {
	case FARPAGE_WILLNEED:
		handler_will_need(&farpage->handler, page, count);
		return 0;
	case FARPAGE_PAGEOUT:
		evictor_send_out(&farpage->evictor, page, count);
		return 0;
	case FARPAGE_DISCARD:
		discard_pages(&farpage->core, page, count);
		return 0;
	}
	return -EINVAL;
}

EXPORT int farpage_advise(struct farpage *farpage, void *address, size_t length, enum farpage_advice advice)
{
	uint64_t page, count;
	int result = page_range(farpage, address, length, advice == FARPAGE_DISCARD, &page, &count);

	if (result || count == 0)
		return result;
	struct entry entry = entry_begin();
	return entry_end(entry, advise(farpage, page, count, advice));
}

EXPORT int farpage_get_stats(const struct farpage *farpage, struct farpage_stats *ret_stats)
{
	struct store_stats stats;

	counters_read(farpage->core.counters, ret_stats);
	store_stats(farpage->core.store, &stats);
	ret_stats->far_bytes = (stats.pages_live + stats.kept_pages) * STORE_PAGE;
	return 0;
}
