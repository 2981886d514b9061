/* window: random histories compared with a model of one byte per page, and threads that must never share a page. */
#include "common/random.h"
#include "pager/window.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 4096u
#define STEPS 20000u

static struct window window;
static bool model[PAGES];
static int sink; /* a write(2) into it succeeds only if the memory can be read */

static char *at(uint64_t page)
{
	return window.base + page * WINDOW_PAGE;
}

static bool accessible(const char *address)
{
	return pwrite(sink, address, 1, 0) == 1;
}

static bool model_all(uint64_t page, uint64_t count, bool value)
{
	for (uint64_t i = page; i < page + count; i++)
		if (model[i] != value)
			return false;
	return true;
}

/* Returns the first page of the lowest aligned free run by trying all, or PAGES if there is none. */
static uint64_t model_first_fit(uint64_t count, uint64_t alignment)
{
	for (uint64_t page = 0; page + count <= PAGES; page++)
		if ((uintptr_t)at(page) % (alignment * WINDOW_PAGE) == 0 && model_all(page, count, false))
			return page;
	return PAGES;
}

static bool step_allocate(struct random_state *random)
{
	uint64_t count = 1 + random_below(random, random_below(random, 8) ? 20 : 400);
	uint64_t alignment = UINT64_C(1) << random_below(random, 7);
	uint64_t expected = model_first_fit(count, alignment);
	void *address = NULL;
	int error = window_allocate(&window, count * WINDOW_PAGE - random_below(random, WINDOW_PAGE),
				    alignment * WINDOW_PAGE, &address);

	if (expected == PAGES)
		return error == -ENOMEM;
	memset(model + expected, true, count);
	return !error && address == at(expected) && accessible(address) && accessible(at(expected + count - 1));
}

static bool step_allocate_at(struct random_state *random)
{
	uint64_t count = 1 + random_below(random, 30), page = random_below(random, PAGES - count);
	bool is_free = model_all(page, count, false);
	int error = window_allocate_at(&window, at(page), count * WINDOW_PAGE);

	if (is_free)
		memset(model + page, true, count);
	return error == (is_free ? 0 : -EEXIST);
}

static bool step_take(struct random_state *random)
{
	uint64_t count = 1 + random_below(random, 30), page = random_below(random, PAGES - count);

	memset(model + page, true, count);
	return !window_take(&window, at(page), count * WINDOW_PAGE) && accessible(at(page));
}

static bool step_free(struct random_state *random)
{
	uint64_t count = 1 + random_below(random, 100), page = random_below(random, PAGES - count);

	window_free(&window, at(page), count * WINDOW_PAGE);
	memset(model + page, false, count);
	return !accessible(at(page)) && !accessible(at(page + count - 1));
}

static bool step_check(struct random_state *random)
{
	uint64_t count = 1 + random_below(random, 20), page = random_below(random, PAGES - count);

	return window_allocated(&window, at(page), count * WINDOW_PAGE) == model_all(page, count, true);
}

static bool counts_agree(void)
{
	uint64_t allocated = 0;

	for (unsigned i = 0; i < PAGES; i++)
		allocated += model[i];
	return window.allocated == allocated;
}

static void a_history_agrees_with_the_model(uint64_t seed)
{
	static bool (*const steps[])(struct random_state *) = {
	    step_allocate, step_allocate, step_allocate_at, step_take, step_free, step_free, step_free, step_check};
	struct random_state random;
	unsigned i = 0;

	random_seed(&random, seed);
	memset(model, 0, sizeof model);
	ok(!window_reserve(&window, PAGES * WINDOW_PAGE, 0), "a window of 4096 pages is reserved");
	while (i < STEPS && steps[random_below(&random, sizeof steps / sizeof *steps)](&random))
		i++;
	ok(i == STEPS, "a history with seed %llu agrees with the model for all its steps (%u)",
	   (unsigned long long)seed, i);
	ok(counts_agree(), "the window counts as many allocated pages as the model");
	window_release(&window);
}

static void addresses_above_the_window_stay_free(void)
{
	const size_t room = (size_t)1 << 40;

	ok(!window_reserve(&window, 10 * WINDOW_PAGE, room),
	   "a window with 1 TiB of free addresses above it is reserved");
	char *end = window.base + window.length;
	/* The upper end of the room may be in use by now. */
	ok(mmap(end, room / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) ==
	       end,
	   "a mapping of 512 GiB fits directly above the window");
	munmap(end, room / 2);
	window_release(&window);
	ok(!window_reserve(&window, 10 * WINDOW_PAGE, SIZE_MAX / 2),
	   "a window with impossible room is reserved without it");
	window_release(&window);
}

static void sizes_and_addresses_are_checked(void)
{
	void *address;

	ok(window_reserve(&window, 0, 0) == -EINVAL, "reserving 0 bytes gets -EINVAL");
	ok(window_reserve(&window, SIZE_MAX / 2, 0) == -ENOMEM, "reserving more than the address space gets -ENOMEM");
	ok(!window_reserve(&window, 10 * WINDOW_PAGE - 1, 0) && window.length == 10 * WINDOW_PAGE,
	   "a reservation is rounded up to whole pages");
	ok(window_allocate(&window, 11 * WINDOW_PAGE, WINDOW_PAGE, &address) == -ENOMEM,
	   "allocating one page more than the window gets -ENOMEM");
	ok(window_allocate(&window, SIZE_MAX, WINDOW_PAGE, &address) == -ENOMEM,
	   "allocating SIZE_MAX bytes gets -ENOMEM");
	ok(window_allocate(&window, 0, WINDOW_PAGE, &address) == -EINVAL, "allocating 0 bytes gets -EINVAL");
	ok(window_allocate(&window, 1, 3, &address) == -EINVAL, "an alignment that is no power of two gets -EINVAL");
	ok(!window_allocate(&window, 10 * WINDOW_PAGE, 1, &address) && address == window.base,
	   "the whole window is allocated at once");
	ok(window_allocate(&window, 1, 1, &address) == -ENOMEM, "a full window gets -ENOMEM");
	ok(window_allocate_at(&window, window.base + window.length, 1) == -EINVAL,
	   "allocating behind the end of the window gets -EINVAL");
	ok(window_allocate_at(&window, window.base + 1, 1) == -EINVAL,
	   "allocating at an address within a page gets -EINVAL");
	ok(window_allocate_at(&window, window.base, SIZE_MAX) == -EINVAL,
	   "allocating across the end of the window gets -EINVAL");
	ok(!window_contains(&window, window.base - 1) && window_contains(&window, window.base) &&
	       !window_contains(&window, window.base + window.length),
	   "a window contains its first byte, but not the bytes before and behind it");
	window_release(&window);
	window_release(&window);
	ok(!window.base, "a window that is released twice is released");
}

static void a_mapping_is_adopted_and_kept(void)
{
	char *memory = mmap(NULL, 8 * WINDOW_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *address;

	memory[5 * WINDOW_PAGE] = 'x';
	ok(window_adopt(&window, memory + 1, WINDOW_PAGE) == -EINVAL,
	   "adopting memory that does not begin at a page gets -EINVAL");
	ok(!window_adopt(&window, memory, 8 * WINDOW_PAGE), "a mapping is adopted as a window");
	ok(window_allocated(&window, memory, 8 * WINDOW_PAGE), "an adopted window is wholly allocated");
	window_free(&window, memory + 2 * WINDOW_PAGE, WINDOW_PAGE);
	ok(!window_allocate(&window, 1, 1, &address) && address == memory + 2 * WINDOW_PAGE,
	   "a page freed in an adopted window is allocated again");
	window_release(&window);
	ok(memory[5 * WINDOW_PAGE] == 'x', "the mapping and its contents outlive the release of an adopted window");
	munmap(memory, 8 * WINDOW_PAGE);
}

#define THREADS 4
#define OWNED 32

/* Each page carries the mark of its owner, so a page that is given to two threads at once is noticed. */
static void *contend(void *argument)
{
	struct random_state random;
	void *owned[OWNED] = {NULL};
	size_t lengths[OWNED] = {0};
	uintptr_t mark = (uintptr_t)argument, wrong = 0;

	random_seed(&random, mark);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned slot = random_below(&random, OWNED);

		if (owned[slot]) {
			for (size_t k = 0; k < lengths[slot]; k += WINDOW_PAGE)
				wrong += *(uintptr_t *)((char *)owned[slot] + k) != mark;
			window_free(&window, owned[slot], lengths[slot]);
			owned[slot] = NULL;
			continue;
		}
		lengths[slot] = (1 + random_below(&random, 8)) * WINDOW_PAGE;
		if (window_allocate(&window, lengths[slot], WINDOW_PAGE, &owned[slot]))
			continue;
		for (size_t k = 0; k < lengths[slot]; k += WINDOW_PAGE)
			*(uintptr_t *)((char *)owned[slot] + k) = mark;
	}
	for (unsigned i = 0; i < OWNED; i++)
		if (owned[i])
			window_free(&window, owned[i], lengths[i]);
	return (void *)wrong;
}

static void threads_never_share_a_page(void)
{
	pthread_t threads[THREADS];
	uintptr_t wrong = 0;

	ok(!window_reserve(&window, 512 * WINDOW_PAGE, 0), "a window of 512 pages is reserved");
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, contend, (void *)(i + 1));
	for (unsigned i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		wrong += (uintptr_t)result;
	}
	ok(!wrong, "no page has two owners at a time");
	ok(!window.allocated && window.next == 0, "a window is wholly free after its threads freed all");
	window_release(&window);
}

int main(void)
{
	sink = memfd_create("sink", 0);
	addresses_above_the_window_stay_free();
	sizes_and_addresses_are_checked();
	a_mapping_is_adopted_and_kept();
	for (uint64_t seed = 1; seed <= 4; seed++)
		a_history_agrees_with_the_model(seed);
	threads_never_share_a_page();
	close(sink);
	return tap_done();
}
