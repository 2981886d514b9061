/* take: pages leave the program's reach with their last contents, or stay where they are. */
#include "client/store.h"
#include "pager/pagemap.h"
#include "pager/take.h"
#include "tests/lib/mix.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"
#include "userfaultfd.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGES = 256, WORDS = STORE_PAGE / 8 };

static bool copies; /* pages are copied, because the kernel has no UFFDIO_MOVE */
static struct window window;
static struct uffd uffd;
static struct take take;
static char *landing;
static struct taken taken[TAKE_MAX];

/* Stands in for the function (-Wl,--wrap=process_vm_readv). */
static bool refuses_readv;
ssize_t __real_process_vm_readv(pid_t process, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t process, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t process, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	errno = EPERM;
	return refuses_readv ? -1 : __real_process_vm_readv(process, local, local_count, remote, remote_count, flags);
}

static uint64_t *words_of(uint64_t page)
{
	return (uint64_t *)(void *)(window.base + page * STORE_PAGE);
}

static bool holds(const void *data, uint64_t page)
{
	const uint64_t *words = data;

	return words[0] == mix(page + 1) && words[WORDS - 1] == mix(page + 2);
}

/* Makes a window, writes all its pages, and then registers them. Returns 0 or -errno of uffd_open(). */
static int begin(void)
{
	void *address;

	landing = take_landing();
	if (window_reserve(&window, PAGES * STORE_PAGE, 0) || !landing ||
	    window_allocate(&window, PAGES * STORE_PAGE, STORE_PAGE, &address))
		tap_bail("no memory");
	window.mediated = true;
	for (uint64_t page = 0; page < PAGES; page++) {
		words_of(page)[0] = mix(page + 1);
		words_of(page)[WORDS - 1] = mix(page + 2);
	}
	int result = uffd_open(window.base, window.length, landing, (size_t)TAKE_LANDING * STORE_PAGE, &uffd);
	if (!result && take_open(&take, &uffd, &window, landing, copies))
		tap_bail("no take opens");
	return result;
}

static void end(void)
{
	take_close(&take);
	uffd_close(&uffd);
	munmap(landing, (size_t)TAKE_LANDING * STORE_PAGE);
	window_release(&window);
}

/* Returns how many of @count pages from @address on are present. */
static unsigned present(const void *address, unsigned count)
{
	static bool here[PAGEMAP_MAX];
	unsigned found = 0;
	int pagemap = pagemap_open();

	if (pagemap_present(pagemap, address, count, here))
		tap_bail("/proc/self/pagemap cannot be read");
	for (unsigned i = 0; i < count; i++)
		found += here[i];
	close(pagemap);
	return found;
}

static bool is_here(uint64_t page)
{
	return present(words_of(page), 1);
}

/* Returns true if userfaultfd write-protects @page, so that writers wait (bit 57 of /proc/self/pagemap). */
static bool is_protected(uint64_t page)
{
	uint64_t entry = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (pread(pagemap, &entry, sizeof entry, (off_t)((uintptr_t)words_of(page) / STORE_PAGE * sizeof entry)) < 0)
		tap_bail("/proc/self/pagemap cannot be read");
	close(pagemap);
	return entry >> 57 & 1;
}

static void take_every(uint64_t first, unsigned step, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		taken[i] = (struct taken){.page = first + i * step, .result = TAKE_BUSY};
	take_pages(&take, taken, count);
}

/* Returns how many of the @count pages taken last have @result, and are absent or present as @result says. */
static unsigned with_result(unsigned count, enum take_result result)
{
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++) {
		bool gone = result == TAKE_TAKEN || result == TAKE_ABSENT;

		found += taken[i].result == result && is_here(taken[i].page) != gone &&
			 (result != TAKE_TAKEN || holds(taken[i].data, taken[i].page));
	}
	return found;
}

/* Places the @count pages taken last at their old addresses. */
static void put_back(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		size_t done;

		if (taken[i].result == TAKE_TAKEN &&
		    uffd_copy(uffd.fd, words_of(taken[i].page), taken[i].data, STORE_PAGE, &done))
			tap_bail("page %u cannot be placed", (unsigned)taken[i].page);
	}
}

static void pages_leave_with_their_contents(void)
{
	begin();
	take_every(0, 1, TAKE_MAX);
	ok(with_result(TAKE_MAX, TAKE_TAKEN) == TAKE_MAX, "a run of adjacent pages is taken with its contents");
	ok(is_here(TAKE_MAX) && holds(words_of(TAKE_MAX), TAKE_MAX), "the page behind a taken run stays");
	take_release(&take, TAKE_MAX);
	ok(!present(landing, TAKE_LANDING), "no memory of taken pages is in use after their release");
	take_every(0, 1, TAKE_MAX);
	ok(with_result(TAKE_MAX, TAKE_ABSENT) == TAKE_MAX, "pages that were taken before are absent");
	take_release(&take, TAKE_MAX);

	take_every(TAKE_MAX, 3, TAKE_MAX);
	ok(with_result(TAKE_MAX, TAKE_TAKEN) == TAKE_MAX, "pages that are not adjacent are taken with their contents");
	put_back(TAKE_MAX);
	take_release(&take, TAKE_MAX);
	unsigned right = 0;
	for (uint64_t page = TAKE_MAX; page < PAGES; page++)
		right += is_here(page) && holds(words_of(page), page);
	ok(right == PAGES - TAKE_MAX,
	   "pages between taken pages stay, and pages put back have the same contents (%u of %u)", right,
	   PAGES - TAKE_MAX);
	end();
}

/* Takes a run with gaps. Copies its first half to every second page, and its second half to adjacent pages.
   @refused: a filter of system calls refuses process_vm_readv(2). */
static void a_copy_has_each_page_at_its_place(bool refused)
{
	enum { COUNT = 50, GAP = 5 };
	char *targets = mmap(NULL, 2 * COUNT * STORE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *to[COUNT];
	unsigned right = 0;

	begin();
	take_every(1, GAP, COUNT / GAP);
	take_release(&take, COUNT / GAP);
	take_every(0, 1, COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		to[i] = targets + (size_t)(i < COUNT / 2 ? 2 * i : COUNT / 2 + i) * STORE_PAGE;
	refuses_readv = refused;
	take_copy(taken, to, COUNT);
	refuses_readv = false;
	for (unsigned i = 0; i < COUNT; i++)
		right += taken[i].result == TAKE_TAKEN ? holds(to[i], i) : !present(to[i], 1);
	ok(right == COUNT, "a copy has each taken page at its place, and nothing of absent pages%s (%u of %u)",
	   refused ? ", without process_vm_readv" : "", right, (unsigned)COUNT);
	ok(with_result(COUNT, TAKE_TAKEN) == COUNT - COUNT / GAP, "a copy leaves the taken pages as they are%s",
	   refused ? ", without process_vm_readv" : "");
	take_release(&take, COUNT);
	end();
	munmap(targets, 2 * COUNT * STORE_PAGE);
}

static void absent_pages_part_a_run(void)
{
	begin();
	take_every(1, 5, 10);
	take_release(&take, 10);
	take_every(0, 1, 50);
	unsigned there = with_result(50, TAKE_TAKEN), absent = with_result(50, TAKE_ABSENT);
	ok(there == 40 && absent == 10, "each page of a run with gaps is taken or absent as it was (%u, %u)", there,
	   absent);
	ok(taken[1].result == TAKE_ABSENT && taken[0].result == TAKE_TAKEN && taken[2].result == TAKE_TAKEN,
	   "the neighbours of an absent page are taken");
	take_release(&take, 50);
	end();
}

/* Pages of four mappings with different protections, in one batch. */
static const struct {
	const char *name;
	int protection;
	bool moves; /* false if the page leaves only by copy */
} mappings[] = {{"a writable", PROT_READ | PROT_WRITE, true},
		{"a read-only", PROT_READ, true},
		{"an executable and writable", PROT_READ | PROT_WRITE | PROT_EXEC, true},
		{"an executable", PROT_READ | PROT_EXEC, true},
		{"an inaccessible", PROT_NONE, false}};
enum { MAPPINGS = sizeof mappings / sizeof *mappings, EACH = 6 };

static bool can_write(uint64_t page)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	bool can = read(zero, words_of(page) + 1, 1) == 1;

	close(zero);
	return can;
}

static void pages_of_every_mapping_leave_or_stay_whole(bool mediated)
{
	const char *who = mediated ? "" : " whose owner may change the protection";

	begin();
	window.mediated = mediated;
	for (unsigned i = 0; i < MAPPINGS; i++)
		mprotect(words_of(3 + i * EACH), EACH * STORE_PAGE, mappings[i].protection);
	const unsigned count = 3 + MAPPINGS * EACH + 3;
	take_every(0, 1, count);
	for (unsigned i = 0; i < MAPPINGS; i++) {
		bool writable = mappings[i].protection & PROT_WRITE;
		bool leaves = copies || (mappings[i].moves && (mediated || writable));
		unsigned right = 0;

		for (unsigned k = 0; k < EACH; k++) {
			const struct taken *page = &taken[3 + i * EACH + k];

			right += leaves ? page->result == TAKE_TAKEN && holds(page->data, page->page)
					: page->result == TAKE_HELD && is_here(page->page);
		}
		ok(right == EACH, "the pages of %s mapping%s %s (%u of %u)", mappings[i].name, who,
		   leaves ? "are taken with their contents" : "are held", right, EACH);
	}
	ok(taken[2].result == TAKE_TAKEN && taken[count - 1].result == TAKE_TAKEN,
	   "the pages beside mappings%s of other protections are taken", who);
	put_back(count);
	take_release(&take, count);
	ok(!present(landing, TAKE_LANDING), "no memory of pages from several mappings%s is in use after release", who);
	for (unsigned i = 0; i < MAPPINGS; i++) {
		uint64_t first = 3 + i * EACH;
		bool writable = mappings[i].protection & PROT_WRITE;

		ok(can_write(first) == writable, "%s mapping%s %s after a batch", mappings[i].name, who,
		   writable ? "can be written to" : "cannot be written to");
		mprotect(words_of(first), EACH * STORE_PAGE, PROT_READ | PROT_WRITE);
		unsigned right = 0;
		for (unsigned k = 0; k < EACH; k++)
			right += can_write(first + k) && holds(words_of(first + k), first + k);
		ok(right == EACH, "%s mapping%s has its contents after a batch, and can be made writable",
		   mappings[i].name, who);
	}
	end();
}

static void a_page_that_a_device_holds_stays(const char *mapping, int protection)
{
	enum { PINNED = 13, COUNT = 32 };
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	begin();
	struct iovec buffer = {words_of(PINNED), STORE_PAGE};
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (io_uring_queue_init(2, &ring, 0) || io_uring_register_buffers(&ring, &buffer, 1)) {
		tap_skip("a page that a device holds is held, and no other page of the run is", "no io_uring");
		end();
		return;
	}
	mprotect(window.base, window.length, protection);
	take_every(0, 1, COUNT);
	ok(with_result(COUNT, TAKE_HELD) == 1 && taken[PINNED].result == TAKE_HELD &&
	       with_result(COUNT, TAKE_TAKEN) == COUNT - 1,
	   "a page of %s mapping that a device holds is held, and no other page of the run is", mapping);
	take_release(&take, COUNT);
	ok(holds(words_of(PINNED), PINNED) && !is_protected(PINNED),
	   "a held page of %s mapping has its contents and lets no writer wait", mapping);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read_fixed(sqe, zero, words_of(PINNED), STORE_PAGE, 0, 0);
	ok(io_uring_submit_and_wait(&ring, 1) == 1 && !io_uring_peek_cqe(&ring, &cqe) && cqe->res == STORE_PAGE &&
	       words_of(PINNED)[0] == 0 && words_of(PINNED)[WORDS - 1] == 0,
	   "a device writes into the memory of a held page of %s mapping", mapping);
	close(zero);
	io_uring_queue_exit(&ring);
	end();
}

static void locked_pages_stay_and_their_neighbours_leave_whole(void)
{
	enum { LOCKED = 10, COUNT = 30 };
	begin();
	if (syscall(SYS_mlock, words_of(LOCKED), 10 * STORE_PAGE)) { /* sanitizers make mlock(3) do nothing */
		tap_skip("locked pages stay with their contents", "memory cannot be locked");
		end();
		return;
	}
	take_every(0, 1, COUNT);
	unsigned stay = 0, whole = 0;
	for (uint64_t page = 0; page < COUNT; page++) {
		bool locked = page >= LOCKED && page < LOCKED + 10, gone = taken[page].result == TAKE_TAKEN;

		stay += locked && taken[page].result == TAKE_HELD && is_here(page) && holds(words_of(page), page) &&
			!is_protected(page);
		whole += !locked && (gone ? holds(taken[page].data, page) : is_here(page));
	}
	ok(stay == 10, "locked pages are held with their contents, and let no writer wait (%u of 10)", stay);
	ok(whole == COUNT - 10, "pages beside locked ones are taken with their contents, or stay (%u of %u)", whole,
	   COUNT - 10);
	end();
}

static void opening_tells_what_cannot_leave(void)
{
	struct take other;

	begin();
	int result = take_open(&other, &uffd, &window, landing, false);
	ok(result == (copies ? -EOPNOTSUPP : 0), "pages that can be neither moved nor copied make take_open() fail");
	if (!result)
		take_close(&other);
	ok(take_memory(&take) < (size_t)TAKE_LANDING * STORE_PAGE * 2,
	   "less memory than two landing areas is in use between two batches (%zu bytes)", take_memory(&take));
	end();
}

/* --- A program that writes meanwhile ----------------------------------------------------------------------------- */

enum { COUNTERS = 4, ADDITIONS = 20000, ROUNDS = UNDER_TSAN ? 100 : 300 };

static _Atomic bool enough, counted;
static uint64_t additions;

/* Adds to a word of each page until the pages have left often enough. */
static void *count_up(void *unused)
{
	(void)unused;
	while (!enough || additions < ADDITIONS) {
		for (uint64_t page = 0; page < COUNTERS; page++)
			++*(volatile uint64_t *)&words_of(page)[1];
		additions++;
	}
	counted = true;
	return NULL;
}

static void no_write_is_lost_while_pages_leave(void)
{
	static char contents[COUNTERS][STORE_PAGE];
	pthread_t thread;
	unsigned gone = 0, wrong = 0;

	begin();
	pthread_create(&thread, NULL, count_up, NULL);
	for (unsigned round = 0; !counted; round++) {
		take_every(0, 1, COUNTERS);
		for (unsigned i = 0; i < COUNTERS; i++) {
			wrong += taken[i].result == TAKE_ABSENT || taken[i].result == TAKE_HELD;
			if (taken[i].result != TAKE_TAKEN)
				continue;
			memcpy(contents[i], taken[i].data, STORE_PAGE);
			taken[i].data = contents[i];
			gone++;
		}
		take_release(&take, COUNTERS);
		put_back(COUNTERS);
		enough = round > ROUNDS;
	}
	pthread_join(thread, NULL);
	for (uint64_t page = 0; page < COUNTERS; page++)
		wrong += words_of(page)[1] != additions;
	ok(!wrong && gone > 100, "no write of a program is lost while its pages leave (%u times, %u wrong)", gone,
	   wrong);
	end();
}

int main(void)
{
	copies = getenv("FARPAGE_NO_MOVE") || !uffd_can_move();
	if (userfaultfd_is_denied(begin()))
		return tap_skip_all("no right to userfaultfd");
	end();
	pages_leave_with_their_contents();
	a_copy_has_each_page_at_its_place(false);
	a_copy_has_each_page_at_its_place(true);
	absent_pages_part_a_run();
	pages_of_every_mapping_leave_or_stay_whole(true);
	pages_of_every_mapping_leave_or_stay_whole(false);
	if (copies)
		tap_skip("a page that a device holds is held, and no other page of the run is", "pages are copied");
	else
		for (unsigned i = 0; i < 4; i++)
			a_page_that_a_device_holds_stays(mappings[i].name, mappings[i].protection);
	locked_pages_stay_and_their_neighbours_leave_whole();
	opening_tells_what_cannot_leave();
	no_write_is_lost_while_pages_leave();
	return tap_done();
}
